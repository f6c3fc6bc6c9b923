/** `--from` and `--to` of a copy: a data folder, or PostgreSQL and S3 joined by a comma, or a folder of rows and S3. */
import { type PostgresAddress, parsePostgresUrl, parseS3Url, type S3Address } from '../engine/address.ts';
import { ConfigError } from '../errors.ts';

/** Where a whole deployment is. */
export type DeploymentPlace =
  /** `content`: where the bytes are, unless they are in the folder */
  | { readonly kind: 'folder'; readonly dataDir: string; readonly content: S3Address | undefined }
  | { readonly kind: 'scaleout'; readonly metadata: PostgresAddress; readonly content: S3Address };

type Environment = Readonly<Record<string, string | undefined>>;

const DATABASE = /^postgres(?:ql)?:/;
const BUCKET = /^s3:/;
/** A comma before that is one of a password or of the folder's name. */
const BEFORE_BUCKET = /,\s*(?=s3:)/;

/** `flag` names it in messages, which quote nothing of it: it may hold a password. Throws ConfigError. */
export function parseDeploymentPlace(flag: string, text: string, env: Environment): DeploymentPlace {
  const parts = text.trim().split(BEFORE_BUCKET);
  const [first = '', second, ...more] = parts;
  if (first === '' || more.length > 0) throw wrongPlace(flag);
  if (!DATABASE.test(first)) {
    if (BUCKET.test(first)) throw wrongPlace(flag);
    const content = second === undefined ? undefined : parseS3Url(second, env, flag);
    return { kind: 'folder', dataDir: first, content };
  }
  if (second === undefined) throw wrongPlace(flag);
  const metadata = parsePostgresUrl(first, env, flag);
  return { kind: 'scaleout', metadata, content: parseS3Url(second, env, flag) };
}

function wrongPlace(flag: string): ConfigError {
  return new ConfigError(
    `${flag} names no deployment; give a data folder (and ,s3://BUCKET if its bytes are there), or postgres://USER@HOST:5432/DATABASE,s3://BUCKET?endpoint=http://HOST:PORT`,
  );
}
