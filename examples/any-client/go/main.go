// An order in Go: safe by default, and a read that waits for all it can see.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)

	// Answered when it is durable. A lost connection means that the outcome is unknown: look.
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO purchase VALUES ($1, $2)", "Cyd", "a table")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	// From here on a read is answered when everything that it may have seen is durable.
	if _, err := conn.Exec(ctx, "SET highwater.read_ack = 'durable'"); err != nil {
		log.Fatal(err)
	}
	var count int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM purchase").Scan(&count); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d purchases are durable\n", count)
}
