/** `--from` and `--to` of a copy: a data folder, or PostgreSQL and S3 joined by a comma. */
import { type PostgresAddress, parsePostgresUrl, parseS3Url, type S3Address } from './engine-urls.ts';
import { ConfigError } from './serve-error.ts';

/** Where a whole deployment is. */
export type DeploymentPlace =
  | { readonly kind: 'folder'; readonly dataDir: string }
  | { readonly kind: 'scaleout'; readonly metadata: PostgresAddress; readonly content: S3Address };

type Environment = Readonly<Record<string, string | undefined>>;

const DATABASE = /^postgres(?:ql)?:/;
const BUCKET = /^s3:/;
/** A comma inside the database's URL is one of its password; the bucket comes last and has none. */
const BEFORE_BUCKET = /,\s*(?=s3:)/;

/** `flag` names it in messages, which quote nothing of it: it may hold a password. Throws ConfigError. */
export function parseDeploymentPlace(flag: string, text: string, env: Environment): DeploymentPlace {
  const parts = text.trim().split(BEFORE_BUCKET);
  const [first = '', second, ...more] = parts;
  if (first === '' || more.length > 0) throw wrongPlace(flag);
  if (!DATABASE.test(first)) {
    if (second !== undefined || BUCKET.test(first)) throw wrongPlace(flag);
    return { kind: 'folder', dataDir: first };
  }
  if (second === undefined) throw wrongPlace(flag);
  const metadata = parsePostgresUrl(first, env, flag);
  return { kind: 'scaleout', metadata, content: parseS3Url(second, env, flag) };
}

function wrongPlace(flag: string): ConfigError {
  return new ConfigError(
    `${flag} names no deployment; give a data folder, or postgres://USER@HOST:5432/DATABASE,s3://BUCKET?endpoint=http://HOST:PORT`,
  );
}
