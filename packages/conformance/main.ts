/** `npm run conformance -- --base-url URL …`: the suite from the command line. Exit 0 all passed, 1 failed, 2 wrong usage. */
import { readFileSync } from 'node:fs';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { redact } from './answer.ts';
import { renderReport } from './report.ts';
import { runConformance, selectChecks } from './runner.ts';
import { type ConformanceOptions, UPLOADS, type Uploads } from './target.ts';
import { algorithmOf, type Identity, type PrivateJwk } from './tokens.ts';

interface Flags {
  baseUrl?: string;
  app?: string;
  issuer?: string;
  audience?: string;
  key?: string;
  second?: string;
  suspended?: string;
  singleKey?: boolean;
  maxNodeBytes?: number;
  maxActiveUploads?: number;
  only?: string[];
  concurrency?: number;
  slow?: boolean;
  uploads?: Uploads;
  json?: boolean;
  list?: boolean;
}

class WrongUsage extends Error {}

function parseCount(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < 1)
    throw new InvalidArgumentError('give an integer above 0');
  return value;
}

function collect(text: string, before: string[] = []): string[] {
  return [...before, text];
}

function buildCommand(): Command {
  return new Command('conformance')
    .description('Checks any server of the Space CAS API against docs/api.md, rule by rule.')
    .option('--base-url <url>', 'where the API is, without /v1')
    .option('--app <id>', 'a registered App')
    .option('--issuer <iss>', "the App's issuer")
    .option('--audience <aud>', "the App's audience")
    .option('--key <file>', "the issuer's private key, a JWK")
    .option('--second <file>', 'JSON file of another App: {"app","issuer","audience","key": JWK or path}')
    .option('--suspended <file>', 'the same, of an App that is suspended')
    .option('--single-key', 'the issuer has exactly one registered key')
    .option('--max-node-bytes <n>', "the server's largest node (default 67108864)", parseCount)
    .option('--max-active-uploads <n>', "the server's active uploads per Space (default 1024)", parseCount)
    .option(
      '--only <clause>',
      'only checks whose id starts with, or clause contains, this (repeatable)',
      collect,
    )
    .option('--concurrency <n>', 'checks side by side (default 4)', parseCount)
    .option('--slow', 'also the checks that wait for more than a minute')
    .addOption(
      new Option(
        '--uploads <way>',
        'how checks upload what they only need to be there (default single)',
      ).choices(UPLOADS),
    )
    .option('--json', 'the report as JSON')
    .option('--list', 'list the checks and stop')
    .exitOverride();
}

function readKey(path: string): PrivateJwk {
  let key: PrivateJwk;
  try {
    key = JSON.parse(readFileSync(path, 'utf8')) as PrivateJwk;
  } catch {
    throw new WrongUsage(`cannot read a JWK from ${path}: give the file that holds the private key`);
  }
  if (typeof key.d !== 'string')
    throw new WrongUsage(`${path} holds no private key: give the private JWK, not the public one`);
  algorithmOf(key);
  return key;
}

function readIdentity(path: string): Identity {
  let fields: Record<string, unknown>;
  try {
    fields = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
  } catch {
    throw new WrongUsage(`cannot read JSON from ${path}: give {"app","issuer","audience","key"}`);
  }
  const text = (name: string): string => {
    const value = fields[name];
    if (typeof value !== 'string')
      throw new WrongUsage(`${path} has no "${name}": give {"app","issuer","audience","key"}`);
    return value;
  };
  const key = typeof fields.key === 'object' ? (fields.key as PrivateJwk) : readKey(text('key'));
  return { appId: text('app'), issuer: text('issuer'), audience: text('audience'), key };
}

function required(value: string | undefined, flag: string): string {
  if (value === undefined) throw new WrongUsage(`${flag} is missing: see --help`);
  return value;
}

function parseOptions(flags: Flags): ConformanceOptions {
  const baseUrl = required(flags.baseUrl, '--base-url');
  if (!URL.canParse(baseUrl) || !/^https?:/.test(baseUrl))
    throw new WrongUsage(`--base-url ${baseUrl} is no http(s) URL`);
  return {
    baseUrl,
    identity: {
      appId: required(flags.app, '--app'),
      issuer: required(flags.issuer, '--issuer'),
      audience: required(flags.audience, '--audience'),
      key: readKey(required(flags.key, '--key')),
    },
    ...(flags.second !== undefined && { secondIdentity: readIdentity(flags.second) }),
    ...(flags.suspended !== undefined && { suspendedIdentity: readIdentity(flags.suspended) }),
    ...(flags.singleKey && { hasSingleKey: true }),
    ...(flags.maxNodeBytes !== undefined && { nodeBytesMax: flags.maxNodeBytes }),
    ...(flags.maxActiveUploads !== undefined && { activeUploadsMax: flags.maxActiveUploads }),
    ...(flags.concurrency !== undefined && { concurrency: flags.concurrency }),
    ...(flags.slow && { slow: true }),
    ...(flags.uploads !== undefined && { uploads: flags.uploads }),
    only: flags.only ?? [],
  };
}

function listChecks(flags: Flags): string {
  const checks = selectChecks(flags.only);
  if (flags.json)
    return JSON.stringify(
      checks.map(({ id, clause, title, needs }) => ({ id, clause, title, needs })),
      null,
      2,
    );
  return checks.map(({ id, clause, title }) => `${id}\n    ${clause}\n    ${title}`).join('\n');
}

async function main(argv: readonly string[]): Promise<number> {
  try {
    const flags = buildCommand().parse(argv, { from: 'user' }).opts<Flags>();
    if (selectChecks(flags.only).length === 0) throw new WrongUsage('--only names no check: see --list');
    if (flags.list) {
      console.log(listChecks(flags));
      return 0;
    }
    const options = parseOptions(flags);
    const report = await runConformance(options);
    console.log(flags.json ? JSON.stringify(report, null, 2) : renderReport(report));
    return report.failed === 0 ? 0 : 1;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    console.error(`conformance: ${redact(error instanceof Error ? error.message : String(error))}`);
    return error instanceof WrongUsage ? 2 : 1;
  }
}

process.exitCode = await main(process.argv.slice(2));
