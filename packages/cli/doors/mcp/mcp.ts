/** `holdfast mcp`: names as tools and resources for agents, over stdin and stdout. */
import {
  CasError,
  CatalogError,
  type Client,
  EditError,
  RottenNodeError,
  TreeFormatError,
  TreePathError,
  TreeReadError,
} from '@holdfast/client/internal';
import {
  type CallToolResult,
  type Tool as McpTool,
  ProtocolError,
  ProtocolErrorCode,
  Server,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { printFailure } from '../../terminal/output.ts';
import { drained, tellAway, untilSignal } from '../door.ts';
import { checkArguments, ToolError } from './arguments.ts';
import { McpNames } from './mcp-names.ts';
import { listResources, RESOURCE_TEMPLATE, readResource } from './resources.ts';
import { StdioLines } from './stdio-lines.ts';
import { findTool, TOOLS } from './tools.ts';

export interface McpSettings {
  readonly names: readonly string[];
  readonly isReadOnly: boolean;
  /** of the program */
  readonly version: string;
}

/** Clients wait for 60 s. */
const CALL_MS_MAX = 30_000;

const INSTRUCTIONS = `Files under names. Every path begins with a name: NAME/a/b. Each write is one version with your message, and every
version stays: look with history and diff, undo with restore.`;

/** Until stdin ends or a signal comes; what was asked by then is answered, for a while. */
export async function runMcp(client: Client, settings: McpSettings): Promise<void> {
  const names = new McpNames(client, settings.names);
  const lines = new StdioLines();
  const handle = serveStdio(() => createMcpServer(names, settings), { transport: lines, onerror: tell });
  await Promise.race([lines.ended, untilSignal()]);
  await drained(lines.finish());
  await handle.close();
}

function createMcpServer(names: McpNames, { isReadOnly, version }: McpSettings): Server {
  const capabilities = { tools: {}, resources: {} };
  const server = new Server({ name: 'holdfast', version }, { capabilities, instructions: INSTRUCTIONS });
  server.setRequestHandler('tools/list', () => ({
    tools: [...TOOLS]
      .filter(([, { isReading }]) => isReading || !isReadOnly)
      .map(([name, { description, schema, isReading }]) => ({
        ...{ name, description, inputSchema: schema as unknown as McpTool['inputSchema'] },
        annotations: { readOnlyHint: isReading, openWorldHint: false },
      })),
  }));
  server.setRequestHandler('tools/call', ({ params }, { mcpReq }) =>
    callTool(names, isReadOnly, params, mcpReq.signal),
  );
  server.setRequestHandler('resources/list', async (_, { mcpReq }) => ({
    resources: await asked(mcpReq.signal, () => listResources(names)),
  }));
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: [RESOURCE_TEMPLATE] }));
  server.setRequestHandler('resources/read', async ({ params }, { mcpReq }) => ({
    contents: [await asked(mcpReq.signal, () => readResource(names, params.uri))],
  }));
  return server;

  /** Resources have no other word for a failure than the protocol's. */
  async function asked<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    try {
      await names.settled();
      return await within(signal, work);
    } catch (error) {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, describe(error));
    }
  }
}

async function callTool(
  names: McpNames,
  isReadOnly: boolean,
  { name, arguments: args = {} }: { readonly name: string; readonly arguments?: unknown },
  signal: AbortSignal,
): Promise<CallToolResult> {
  try {
    const tool = findTool(name, isReadOnly);
    if (tool === undefined) throw new ToolError(`there is no tool ${JSON.stringify(name)}`);
    checkArguments(tool.schema, args);
    const run = () => within(signal, (limited) => tool.run(names, args as never, limited));
    const structuredContent = {
      ...(tool.isReading ? await names.settled().then(run) : await names.inOrder(run)),
    };
    return { content: [{ type: 'text', text: JSON.stringify(structuredContent) }], structuredContent };
  } catch (error) {
    return { isError: true, content: [{ type: 'text', text: describe(error) }] };
  }
}

/** Rejects when the time is over or the call is taken back, whatever `work` waits for. */
async function within<T>(signal: AbortSignal, work: (limited: AbortSignal) => Promise<T>): Promise<T> {
  const limit = AbortSignal.timeout(CALL_MS_MAX);
  const limited = AbortSignal.any([signal, limit]);
  limited.throwIfAborted();
  const over = Promise.withResolvers<never>();
  limited.addEventListener('abort', () => over.reject(limit.aborted ? new LateError() : limited.reason));
  return Promise.race([work(limited), over.promise]);
}

class LateError extends Error {
  override readonly name = 'LateError';
}

/** Their messages are made for people. */
const TOLD = [
  ToolError,
  EditError,
  CatalogError,
  TreePathError,
  TreeFormatError,
  TreeReadError,
  RottenNodeError,
];

function describe(error: unknown): string {
  if (error instanceof CasError) {
    const isQuota =
      error.code === ('QUOTA_EXCEEDED' as string) ||
      (error.status === 429 && error.retryAfterMs === undefined);
    if (isQuota) return error.reason;
    tellAway(error.reason, 'calls fail meanwhile');
    return `the server cannot be reached, or refuses: ${error.reason}`;
  }
  if (error instanceof LateError) {
    const reason = `the server did not answer within ${CALL_MS_MAX / 1000} s`;
    tellAway(reason, 'calls fail meanwhile');
    return `${reason}; history shows whether a write was done`;
  }
  if (TOLD.some((kind) => error instanceof kind)) return (error as Error).message;
  tell(error);
  return 'the door failed; its stderr says why';
}

function tell(error: unknown): void {
  printFailure(error instanceof Error ? error.message : String(error));
}
