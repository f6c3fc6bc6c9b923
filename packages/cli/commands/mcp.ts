/** `holdfast mcp`: names for agents that speak the Model Context Protocol. */
import type { Client } from '@holdfast/client';
import type { Command } from 'commander';
import { type ConnectionFlags, withClient, withConnection } from '../connection/space-connection.ts';
import { repeated } from '../options.ts';
import { mayWriteNames, parseNameValue, requireNamesReader } from '../trees/names.ts';

interface Flags extends ConnectionFlags {
  readonly readOnly?: true;
}

const HELP = `
Speaks the Model Context Protocol over stdin and stdout until stdin ends; an agent starts it by itself. It offers these names (all of the
token's refDomain if none is given). Every write is one snapshot with the agent's message, so that each step can be looked at and undone.

Examples:
  claude mcp add holdfast -- holdfast mcp notes
  holdfast mcp notes --read-only`;

export function registerMcpCommand(program: Command): void {
  const command = program
    .command('mcp')
    .description('names for agents (Model Context Protocol over stdio)')
    .argument('[names...]', 'only these', repeated(parseNameValue))
    .option('--read-only', 'offer no tool that writes');
  withConnection(command, HELP).action(serveMcp);
}

async function serveMcp(names: readonly string[], flags: Flags, command: Command): Promise<void> {
  await requireNamesReader(flags);
  const isReadOnly = flags.readOnly === true || !(await mayWriteNames(flags));
  const { runMcp } = await import('../doors/mcp/mcp.ts');
  const version = command.parent?.version() ?? '';
  await withClient(flags, (client: Client) => runMcp(client, { names, isReadOnly, version }), {
    isJob: true,
  });
}
