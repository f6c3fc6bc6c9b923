/** `holdfast key`: signing keys for the issuer of an App. */
import { ALGORITHMS, type Algorithm, PRIVATE_FILE_MODE } from '@holdfast/protocol';
import { type Command, Option } from 'commander';
import { UsageError } from '../cli-error.ts';
import { createFile, PUBLIC_FILE_MODE, removeFile } from '../files.ts';
import { jsonOption } from '../options.ts';
import { printJson, printLine } from '../terminal/output.ts';
import { resolvePath } from '../trees/given-path.ts';

interface NewKeyOptions {
  readonly out: string;
  readonly jwks: string;
  readonly alg: Algorithm;
  readonly json?: true;
}

export function registerKeyCommand(program: Command): void {
  const key = program.command('key').description("make signing keys for an App's issuer");
  key
    .command('new')
    .description('make a key pair: the private key to sign tokens with, and the key set to register')
    .requiredOption(
      '--out <private.jwk>',
      'file for the private key, readable by you alone; never overwritten',
    )
    .requiredOption('--jwks <public.json>', 'file for the public key set; never overwritten')
    .addOption(new Option('--alg <name>', 'signature algorithm').choices(ALGORITHMS).default('ES256'))
    .addOption(jsonOption())
    .action(newKey);
}

async function newKey({ out, jwks, alg, json }: NewKeyOptions): Promise<void> {
  if (resolvePath(out) === resolvePath(jwks)) {
    throw new UsageError('--out and --jwks name the same file; give the public key set a file of its own');
  }
  const { calculateJwkThumbprint, exportJWK, generateKeyPair } = await import('jose');
  const pair = await generateKeyPair(alg, { extractable: true, modulusLength: 3072 });
  const publicJwk = await exportJWK(pair.publicKey);
  const common = { kid: await calculateJwkThumbprint(publicJwk), alg, use: 'sig' };
  const privateJwk = { ...(await exportJWK(pair.privateKey)), ...common };
  createFile(out, toText(privateJwk), PRIVATE_FILE_MODE);
  try {
    createFile(jwks, toText({ keys: [{ ...publicJwk, ...common }] }), PUBLIC_FILE_MODE);
  } catch (error) {
    // A private key without its public half is of no use, and would be in the way of the next attempt.
    removeFile(out);
    throw error;
  }
  if (json) printJson({ kid: common.kid, alg, privateKeyFile: out, keySetFile: jwks });
  else printLine(`${alg} key ${common.kid}: private key in ${out}, public key set in ${jwks}`);
}

function toText(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}
