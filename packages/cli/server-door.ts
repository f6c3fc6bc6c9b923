/** The server's door, loaded only by commands that need it: the start of all others stays quick. */
import { CliError, UsageError } from './cli-error.ts';

export type Server = typeof import('@holdfast/server');

/** Its refusals, which are one line for the operator, become those of a command. */
export async function withServer<T>(work: (server: Server) => Promise<T>): Promise<T> {
  const server = await import('@holdfast/server');
  try {
    return await work(server);
  } catch (error) {
    if (error instanceof server.ConfigError) throw new UsageError(error.message);
    throw error instanceof server.ServeError ? new CliError(error.message) : error;
  }
}
