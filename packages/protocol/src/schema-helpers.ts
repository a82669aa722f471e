// Helpers with which the schemas of this package are written.
import Type from "typebox";

export const closed = { additionalProperties: false } as const;

/** One of these texts. */
export const texts = <T extends string>(values: readonly T[], description?: string) =>
  Type.Unsafe<T>(Type.String({ enum: values, ...(description !== undefined && { description }) }));

/** The same schema, described anew for the place where it stands. */
export const about = <T extends Type.TSchema>(schema: T, description: string): T => ({
  ...schema,
  description,
});
