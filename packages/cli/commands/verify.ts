/** `holdfast verify`: every byte of a tree, checked. */

import { formatPath, pathBytes, type TreeFault, verifyTree } from '@holdfast/client/internal';
import { countOf, formatBytes } from '@holdfast/protocol';
import type { Command } from 'commander';
import { CliError } from '../cli-error.ts';
import { type ConnectionFlags, withConnection } from '../connection/space-connection.ts';
import { quietOption } from '../options.ts';
import { NOTHING_CHANGED } from '../terminal/interruption.ts';
import { printJson, printLine, printNote } from '../terminal/output.ts';
import { findHash, runTreeJob } from '../trees/located-trees.ts';
import { describeName } from '../trees/names.ts';
import { LOCATION_HELP, parseLocation, type TreeLocation } from '../trees/reference.ts';

const HELP = `
Reads every node of the tree and checks it against its hash and against what the nodes above say of it. Names
each node that is missing, damaged or not part of a tree, with its path, and then fails (1). Heal them from the original:
  holdfast push --check PATH

Examples:
  holdfast verify HASH --json
  holdfast verify photos/2024`;

export function registerVerifyCommand(program: Command): void {
  const command = program
    .command('verify')
    .description('check every byte of a tree')
    .argument('<location>', LOCATION_HELP, parseLocation)
    .addOption(quietOption('show only what is wrong'));
  withConnection(command, HELP).action(verify);
}

async function verify(location: TreeLocation, flags: ConnectionFlags): Promise<void> {
  const faults: TreeFault[] = [];
  const whenInterrupted = `${NOTHING_CHANGED}; run the same command again: it begins anew`;
  const job = { job: 'verify', subject: location.text, flags, whenInterrupted } as const;
  const result = await runTreeJob(job, location, async (source, tree, context) => {
    const root = await findHash(source, tree);
    const verified = await verifyTree(source, root, {
      ...context,
      onFault: (fault) => {
        // They are kept for --json. Without it each is shown as it is found.
        if (faults.length < 10_000) faults.push(fault);
        if (!flags.json) printLine(`${formatPath(fault.path)}: ${fault.message}`);
      },
    });
    return { root, ...verified };
  });
  if (flags.json) printJson({ ...result, faults: faults.map(describe), faultCount: result.faults });
  if (result.faults > 0) {
    const are = result.faults === 1 ? 'is' : 'are';
    throw new CliError(
      `${countOf(result.faults, 'node')} ${are} missing or wrong; heal from the original: holdfast push --check PATH, then verify again: what lies below a lost folder shows only when that is back`,
    );
  }
  if (flags.json || flags.quiet) return;
  printNote(`${countOf(result.nodes, 'node')} with ${formatBytes(result.bytes)}: all good`);
}

function describe({ path, hash, message }: TreeFault): unknown {
  return { ...describeName('path', pathBytes(path)), hash, message };
}
