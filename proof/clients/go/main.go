// What pgx sees: batches, COPY, prepared statements, listeners, cancellation, pools. Prints a line
// of JSON for each case; a failure is a result as well.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var ctx = context.Background()

func see(name string, call func() (any, error)) {
	result, err := call()
	if err != nil {
		var failed *pgconn.PgError
		if errors.As(err, &failed) {
			result = map[string]any{"error": failed}
		} else {
			result = map[string]any{"error": fmt.Sprintf("%T", err)}
		}
	}
	line, err := json.Marshal(map[string]any{"case": name, "result": result})
	check(err)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func tag(conn *pgx.Conn, sql string, args ...any) func() (any, error) {
	return func() (any, error) {
		done, err := conn.Exec(ctx, sql, args...)
		return done.String(), err
	}
}

func count(conn *pgx.Conn) (int, error) {
	var n int
	err := conn.QueryRow(ctx, "SELECT count(*) FROM item").Scan(&n)
	return n, err
}

func basics(conn *pgx.Conn) {
	see("tables", tag(conn, "CREATE TABLE item (id int PRIMARY KEY, text text)"))
	see("insert", tag(conn, "INSERT INTO item VALUES ($1, $2)", 1, "a"))
	see("the same again", tag(conn, "INSERT INTO item VALUES ($1, $2)", 2, "b"))
	see("duplicate", tag(conn, "INSERT INTO item VALUES ($1, $2)", 1, "a"))
	see("nothing", tag(conn, "DELETE FROM item WHERE id = $1", 99))
	see("syntax", tag(conn, "SELECT * FORM item"))
	for name, mode := range map[string]pgx.QueryExecMode{
		"simple": pgx.QueryExecModeSimpleProtocol, "exec": pgx.QueryExecModeExec,
		"describe": pgx.QueryExecModeDescribeExec, "cached": pgx.QueryExecModeCacheDescribe,
	} {
		see("mode "+name, func() (any, error) {
			rows, err := conn.Query(ctx, "SELECT id, text FROM item WHERE id > $1 ORDER BY id", mode, 0)
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowToMap)
		})
	}
	see("several statements in one text", func() (any, error) {
		reader := conn.PgConn().Exec(ctx, "BEGIN; INSERT INTO item VALUES (3, 'c'); COMMIT; SELECT 1/0")
		results, err := reader.ReadAll()
		tags := []string{}
		for _, one := range results {
			tags = append(tags, one.CommandTag.String())
		}
		return []any{tags, err != nil}, nil
	})
}

func batches(conn *pgx.Conn) {
	see("batch", func() (any, error) {
		batch := &pgx.Batch{}
		for n := range 50 {
			batch.Queue("INSERT INTO item VALUES ($1, 'batch')", 100+n)
		}
		return nil, conn.SendBatch(ctx, batch).Close()
	})
	see("batch that fails", func() (any, error) {
		batch := &pgx.Batch{}
		for _, n := range []int{200, 1, 201} {
			batch.Queue("INSERT INTO item VALUES ($1, 'failed')", n)
		}
		return nil, conn.SendBatch(ctx, batch).Close()
	})
	see("nothing of it", func() (any, error) { return count(conn) })
	see("pipeline of several transactions", func() (any, error) {
		pipeline := conn.PgConn().StartPipeline(ctx)
		for _, id := range []string{"300", "1", "301"} {
			pipeline.SendQueryParams("INSERT INTO item VALUES ($1::int, 'p')", [][]byte{[]byte(id)}, nil, nil, nil)
			check(pipeline.Sync())
		}
		seen := []string{}
		for range 6 {
			got, err := pipeline.GetResults()
			if err != nil {
				seen = append(seen, err.Error())
				continue
			}
			if reader, is := got.(*pgconn.ResultReader); is {
				done, err := reader.Close()
				seen = append(seen, fmt.Sprint(done.String(), err))
			} else {
				seen = append(seen, fmt.Sprintf("%T", got))
			}
		}
		return seen, pipeline.Close()
	})
}

func blocks(conn *pgx.Conn) {
	see("transaction with a savepoint", func() (any, error) {
		err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO item VALUES (400, 't')"); err != nil {
				return err
			}
			_ = pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				_, err := inner.Exec(ctx, "INSERT INTO item VALUES (400, 't')")
				return err
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
		return count(conn)
	})
	see("commit of a failed transaction", func() (any, error) {
		tx, err := conn.Begin(ctx)
		check(err)
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		return nil, tx.Commit(ctx)
	})
	see("copy in", func() (any, error) {
		rows := [][]any{}
		for n := range 10_000 {
			rows = append(rows, []any{1_000 + n, strings.Repeat("x", 50)})
		}
		return conn.CopyFrom(ctx, pgx.Identifier{"item"}, []string{"id", "text"}, pgx.CopyFromRows(rows))
	})
	see("copy in, a duplicate", func() (any, error) {
		rows := [][]any{{1, "x"}}
		return conn.CopyFrom(ctx, pgx.Identifier{"item"}, []string{"id", "text"}, pgx.CopyFromRows(rows))
	})
	see("copy out", func() (any, error) {
		var text strings.Builder
		done, err := conn.PgConn().CopyTo(ctx, &text, "COPY (SELECT * FROM item ORDER BY id) TO STDOUT")
		return []any{done.String(), text.Len()}, err
	})
	see("large object", func() (any, error) {
		var size int64
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			objects := tx.LargeObjects()
			oid, err := objects.Create(ctx, 0)
			check(err)
			object, err := objects.Open(ctx, oid, pgx.LargeObjectModeWrite)
			check(err)
			_, err = object.Write([]byte(strings.Repeat("abc", 1000)))
			check(err)
			size, err = object.Tell()
			return err
		})
		return size, err
	})
}

func sessions(conn *pgx.Conn, url string) {
	other, err := pgx.Connect(ctx, url)
	check(err)
	see("notification", func() (any, error) {
		_, err := conn.Exec(ctx, "LISTEN news")
		check(err)
		_, err = other.Exec(ctx, "SELECT pg_notify('news', 'go')")
		check(err)
		received, err := conn.WaitForNotification(ctx)
		return []string{received.Channel, received.Payload}, err
	})
	check(other.Close(ctx))
	see("cancelled by a request", func() (any, error) {
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(200 * time.Millisecond):
					_ = conn.PgConn().CancelRequest(ctx)
				}
			}
		}()
		_, err := conn.Exec(ctx, "SELECT pg_sleep(600)")
		close(done)
		return nil, err
	})
	see("a deadline closes the connection", func() (any, error) {
		own, err := pgx.Connect(ctx, url)
		check(err)
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err = own.Exec(short, "SELECT pg_sleep(600)")
		return []bool{err != nil, own.IsClosed()}, nil
	})
	see("pool", func() (any, error) {
		pool, err := pgxpool.New(ctx, url)
		check(err)
		defer pool.Close()
		var all sync.WaitGroup
		for n := range 60 {
			all.Go(func() {
				_, err := pool.Exec(ctx, "INSERT INTO item VALUES ($1, 'pool')", 50_000+n)
				check(err)
			})
		}
		all.Wait()
		var n int
		err = pool.QueryRow(ctx, "SELECT count(*) FROM item WHERE text = 'pool'").Scan(&n)
		return n, err
	})
}

func main() {
	url := os.Getenv("DATABASE_URL")
	conn, err := pgx.Connect(ctx, url)
	check(err)
	basics(conn)
	batches(conn)
	blocks(conn)
	check(conn.Close(ctx))
	conn, err = pgx.Connect(ctx, url)
	check(err)
	sessions(conn, url)
	check(conn.Close(ctx))
}
