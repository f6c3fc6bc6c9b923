/** `holdfast config check`: whether a server would start with these flags and variables, and what it would run with. */
import type { Command } from 'commander';
import { CliError, UsageError } from '../cli-error.ts';
import { jsonOption } from '../options.ts';
import { saying } from '../progress/waits.ts';
import { sayWhenInterrupted } from '../terminal/interruption.ts';
import { printable, printJson, printLine, printTable } from '../terminal/output.ts';
import { CLIENT_VARIABLES } from '../variables.ts';
import { withServeFlags } from './serve.ts';

type ServeFlags = import('@holdfast/server').ServeFlags;
type ConfigReport = import('@holdfast/server').ConfigReport;

interface CheckFlags extends ServeFlags {
  readonly online?: true;
  readonly json?: true;
}

const HELP_AFTER = `
Takes the flags and variables of serve, makes nothing, shows no secret. Exit codes: 0 all is well, 1 the data folder (with
--online: an engine) cannot be used, 2 a wrong value, or a variable HOLDFAST_… that nothing reads.

Examples:
  holdfast config check --max-node-bytes 32MiB
  holdfast config check --online --data /var/lib/holdfast`;

export function registerConfigCommand(program: Command): void {
  const config = program.command('config').description('check the configuration of a server');
  withServeFlags(config.command('check'))
    .description('say what a server would run with, and what is wrong with it; makes nothing')
    .option('--online', 'also try the engines: database, bucket, clocks, port')
    .addOption(jsonOption())
    .addHelpText('after', HELP_AFTER)
    .action(runCheck);
}

async function runCheck({ online, json, ...flags }: CheckFlags): Promise<void> {
  sayWhenInterrupted('nothing was made');
  const server = await import('@holdfast/server');
  const report = await saying('no answer yet from the engines', () =>
    server.checkConfig({
      flags,
      env: process.env,
      otherVariables: CLIENT_VARIABLES,
      isOnline: online === true,
    }),
  );
  if (json) printJson(report);
  else printReport(report);
  if (report.ok) return;
  const { problems } = report;
  const said = `${problems.length} ${problems.length === 1 ? 'problem' : 'problems'}`;
  const first = problems[0]?.message ?? '';
  const message = problems.length === 1 ? first : `${said}; the first: ${first}`;
  throw problems.some(({ kind }) => kind === 'usage') ? new UsageError(message) : new CliError(message);
}

function printReport({ settings, found, problems, ok }: ConfigReport): void {
  if (settings !== null) {
    const rows = Object.entries(settings).map(([name, value]) => [
      name,
      value === null ? '-' : String(value),
    ]);
    printTable(['SETTING', 'VALUE'], rows);
  }
  for (const line of found) printLine(`found: ${printable(line)}`);
  for (const { message } of problems) printLine(`problem: ${printable(message)}`);
  if (ok) printLine('the configuration is good');
}
