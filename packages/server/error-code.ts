/** The code of an error of the system, of SQLite or of PostgreSQL, such as `ENOENT`; undefined for any other error. */
export function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}
