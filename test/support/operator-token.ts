/** The token of operators that a server has made in its data folder. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** For `--operator-token-file`. */
export function operatorTokenFile(data: string): string {
  return join(data, 'operator-token');
}

/** Headers of a request to the operator API. The server makes the file before it says that it listens. */
export function operatorHeaders(data: string): { authorization: string } {
  return { authorization: `Bearer ${readFileSync(operatorTokenFile(data), 'utf8').trim()}` };
}
