/** `holdfast usage`: what a Space holds. */

import type { SpaceUsage } from '@holdfast/client/internal';
import { formatBytes, formatCount } from '@holdfast/protocol';
import type { Command } from 'commander';
import { type ConnectionFlags, withClient, withConnection } from '../connection/space-connection.ts';
import { printJson, printTable } from '../terminal/output.ts';

const MEANINGS: Readonly<Record<keyof SpaceUsage, string>> = {
  nodeCount: 'nodes',
  notReadyNodeCount: 'nodes that are not ready',
  leasedNodeCount: 'nodes under an unexpired lease',
  readyContentBytes: 'content that is ready',
  readyStoredBytes: 'what that content takes, envelopes included',
  reservedBytes: 'reserved by uploads that are not finished',
};

export function registerUsageCommand(program: Command): void {
  const command = program.command('usage').description('show what a Space holds, exact and current');
  withConnection(command).action(async (flags: ConnectionFlags) => {
    const usage = await withClient(flags, (client) => client.getUsage());
    if (flags.json) return printJson(usage);
    const names = Object.keys(MEANINGS) as (keyof SpaceUsage)[];
    printTable(
      ['FIELD', 'VALUE', 'MEANING'],
      names.map((name) => [name, formatValue(name, usage[name]), MEANINGS[name]]),
    );
  });
}

function formatValue(name: keyof SpaceUsage, value: number): string {
  return name.endsWith('Bytes') ? formatBytes(value) : formatCount(value);
}
