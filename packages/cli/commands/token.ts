/** `holdfast token`: signs a capability with a private key file. */
import {
  ALGORITHMS,
  AUTHORITIES,
  findJson,
  formatDuration,
  isAlgorithm,
  TOKEN_LIFETIME_MS_MAX_DEFAULT,
} from '@holdfast/protocol';
import { type Command, Option } from 'commander';
import type { JWK } from 'jose';
import { CliError } from '../cli-error.ts';
import { readSecretText } from '../files.ts';
import {
  collectKnownNames,
  jsonOption,
  parseDurationValue,
  parsePathIdValue,
  parseRefDomainValue,
} from '../options.ts';
import { NOTHING_CHANGED, sayWhenInterrupted } from '../terminal/interruption.ts';
import { printJson, printLine, printNote } from '../terminal/output.ts';

const TOKEN_TYPE = 'cas-cap+jwt';

interface TokenOptions {
  readonly key: string;
  readonly issuer: string;
  readonly audience: string;
  readonly space: string;
  readonly permission: readonly string[];
  readonly refDomain?: string;
  readonly ttl: number;
  readonly json?: true;
}

const HELP_AFTER = `
Permissions: ${AUTHORITIES.join(', ')}.
The token is a secret: its holder may use its permissions until it expires. An example:
  export HOLDFAST_TOKEN=$(holdfast token --key private.jwk --issuer https://issuer.example \\
    --audience holdfast --space home --permission cas:nodes:read,cas:usage:read --ttl 1h)`;

export function registerTokenCommand(program: Command): void {
  program
    .command('token')
    .description('sign a capability and print it alone on stdout')
    .requiredOption('--key <private.jwk>', 'private key file made by: holdfast key new')
    .requiredOption('--issuer <iss>', 'the issuer registered for the App')
    .requiredOption('--audience <aud>', 'the audience registered for the App')
    .requiredOption('--space <space-id>', 'the Space it is for', parsePathIdValue)
    .addOption(
      new Option('--permission <names...>', 'what it allows; may be repeated, commas may join names')
        .argParser(collectKnownNames(AUTHORITIES))
        .makeOptionMandatory(),
    )
    .addOption(
      new Option(
        '--ref-domain <domain>',
        'its namespace of root refs, needed by cas:root-refs permissions',
      ).argParser(parseRefDomainValue),
    )
    .addOption(
      new Option('--ttl <duration>', 'how long it is good for')
        .argParser(parseDurationValue)
        .default(5 * 60_000, '5m'),
    )
    .addOption(jsonOption())
    .addHelpText('after', HELP_AFTER)
    .action(printToken);
}

async function printToken(options: TokenOptions): Promise<void> {
  sayWhenInterrupted(NOTHING_CHANGED);
  const { compactVerify, importJWK, SignJWT } = await import('jose');
  const { jwk, algorithm } = await readPrivateKey(options.key);
  // Both in whole seconds, so that a --ttl of exactly the App's maximum lifetime is accepted.
  const issuedAt = Math.floor(Date.now() / 1000);
  const expiresAt = issuedAt + Math.ceil(options.ttl / 1000);
  let token: string;
  try {
    token = await new SignJWT({
      ver: 1,
      iss: options.issuer,
      aud: options.audience,
      iat: issuedAt,
      exp: expiresAt,
      spaceId: options.space,
      permissions: [...options.permission],
      ...(options.refDomain === undefined ? {} : { refDomain: options.refDomain }),
    })
      .setProtectedHeader({
        alg: algorithm,
        typ: TOKEN_TYPE,
        ...(typeof jwk.kid === 'string' ? { kid: jwk.kid } : {}),
      })
      .sign(await importJWK(jwk, algorithm));
    // Not every library notices that the two halves of a damaged key file do not belong together. Every server would refuse the token.
    await compactVerify(token, await importJWK(publicHalf(jwk), algorithm));
  } catch {
    // The library's message could quote the key.
    throw new CliError(
      `the key in ${options.key} is not a usable ${algorithm} key; make one with: holdfast key new`,
    );
  }
  for (const warning of findWarnings(options)) printNote(`warning: ${warning}`);
  if (options.json) printJson({ token, expiresAt: expiresAt * 1000 });
  else printLine(token);
}

/** Warns of requests that every server will refuse with this token, as far as it can be told from here. */
function findWarnings({ permission, refDomain, ttl }: TokenOptions): string[] {
  const rootRefs = permission.filter((name) => name.startsWith('cas:root-refs:'));
  return [
    ...(rootRefs.length > 0 && refDomain === undefined
      ? [`${rootRefs.join(' and ')} cannot be used without --ref-domain: every such request is refused`]
      : []),
    ...(ttl > TOKEN_LIFETIME_MS_MAX_DEFAULT
      ? [
          `--ttl ${formatDuration(ttl)} is more than the ${formatDuration(TOKEN_LIFETIME_MS_MAX_DEFAULT)} that an App accepts unless it was added with a longer --max-token-lifetime: then every request is refused`,
        ]
      : []),
  ];
}

async function readPrivateKey(path: string): Promise<{ readonly jwk: JWK; readonly algorithm: string }> {
  const text = await readSecretText(path, 'the private key');
  const jwk = findJson(text);
  if (jwk === undefined) {
    throw new CliError(
      `the private key ${path} is not JSON; give the file that holdfast key new wrote to --out`,
    );
  }
  if (typeof jwk !== 'object' || jwk === null || !('d' in jwk) || typeof jwk.d !== 'string') {
    throw new CliError(`${path} holds no private key; give the file that holdfast key new wrote to --out`);
  }
  const algorithm = 'alg' in jwk ? jwk.alg : inferAlgorithm(jwk);
  if (!isAlgorithm(algorithm)) {
    throw new CliError(
      `the key in ${path} names no "alg" out of ${ALGORITHMS.join(', ')}; make one with: holdfast key new`,
    );
  }
  return { jwk: jwk as JWK, algorithm };
}

function publicHalf({ kty, crv, x, y, n, e }: JWK): JWK {
  const parts = Object.entries({ kty, crv, x, y, n, e }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(parts);
}

/** The algorithm of a key whose curve allows only one. */
function inferAlgorithm(jwk: object): string | undefined {
  const curve = 'crv' in jwk ? jwk.crv : undefined;
  if (curve === 'P-256') return 'ES256';
  if (curve === 'P-384') return 'ES384';
  return curve === 'Ed25519' ? 'EdDSA' : undefined;
}
