/** A handler over the real embedded engine in its own folder. Authorization admits every request; ports can be replaced. */

import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeNode } from '../../../../test/support/canonical-node.ts';
import type { Capability, RequestedOperation } from '../../auth/capability.ts';
import type { Core } from '../../core/core.ts';
import { PackJudgements } from '../../core/packs/judge-pack.ts';
import { NO_QUOTAS } from '../../core/quotas.ts';
import { RottenNodes } from '../../core/rotten-nodes.ts';
import { createSigner } from '../../core/signer.ts';
import { StrayWatch } from '../../core/stray-watch.ts';
import { openEmbeddedEngine } from '../../deployment/test/embedded-engine-fixture.ts';
import { unzstd } from '../../engine/packed-object.ts';
import { JudgingTurns } from '../../shares/fair-queue.ts';
import { ContentCopies } from '../content-copies.ts';
import type { FailureReport } from '../error-answer.ts';
import { createHandler, type Handler, type HandlerOptions } from '../handler.ts';

export const SPACE_URL = 'http://h/v1/apps/app/spaces/space';
const NODE_BYTES_MAX = 20 * 1024 * 1024;

export interface HandlerWorld {
  readonly core: Core;
  readonly options: HandlerOptions;
  readonly failures: FailureReport[];
  /** operations that authorization was asked about */
  readonly authorized: RequestedOperation[];
  /** a handler like `options`, but for `changes` */
  handler(changes?: Partial<HandlerOptions>): Handler;
  /** lease, PUT, lease; the hash of the node that is ready then */
  store(content: Uint8Array | string, contentType?: string): Promise<string>;
  /** Changes one byte of the node's content where it is stored. */
  damage(hash: string, position: number): Promise<void>;
  close(): Promise<void>;
}

export async function openHandlerWorld(): Promise<HandlerWorld> {
  const dataDir = await mkdtemp(join(tmpdir(), 'holdfast-handler-'));
  const clock = { now: Date.now };
  const onFatal = (error: Error): never => {
    throw error;
  };
  const engine = await openEmbeddedEngine({ dataDir, workers: 1, clock, onFatal });
  const core: Core = {
    metadata: engine.metadata,
    content: engine.content,
    random: { bytes: (count) => randomBytes(count) },
    signer: createSigner(randomBytes(32)),
    rottenNodes: new RottenNodes(() => undefined),
    strays: new StrayWatch(),
    packs: new PackJudgements(unzstd, new JudgingTurns()),
    quotas: NO_QUOTAS,
    settings: {
      nodeBytesMax: NODE_BYTES_MAX,
      activeUploadsMax: 100,
      uploadTtlMs: 60_000,
      abandonedAfterMs: 86_400_000,
      rootRefHistoryMs: 86_400_000,
      keepReplacedMs: 0,
    },
  };
  const failures: FailureReport[] = [];
  const authorized: RequestedOperation[] = [];
  const options: HandlerOptions = {
    core,
    authorize: (_, appId, spaceId, operation) => {
      authorized.push(operation);
      return capabilityOf(appId ?? '', spaceId ?? '');
    },
    isRegistered: () => false,
    copies: await ContentCopies.open(join(dataDir, 'copies')),
    reportFailure: (report) => failures.push(report),
    publicUrl: undefined,
    corsOrigins: '*',
  };
  const handler = (changes: Partial<HandlerOptions> = {}): Handler =>
    createHandler({ ...options, ...changes });
  return {
    core,
    options,
    failures,
    authorized,
    handler,
    store: (content, contentType) => store(handler(), content, contentType),
    async damage(hash, position) {
      const node = await core.metadata.findNode({ appId: 'app', spaceId: 'space' }, hash);
      if (node === undefined) throw new Error(`there is no node ${hash}`);
      const { generation, canonicalSize, size } = node;
      const path = join(dataDir, 'content', 'objects', generation.slice(-2), generation);
      const bytes = await readFile(path);
      const at = canonicalSize - size + position;
      bytes[at] = (bytes[at] as number) ^ 1;
      await writeFile(path, bytes);
    },
    async close() {
      options.copies.close();
      await engine.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

export function leaseRequest(hash: string): Request {
  return new Request(`${SPACE_URL}/cas/nodes/${hash}/lease`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"leaseDurationMs":60000}',
  });
}

function capabilityOf(appId: string, spaceId: string): Capability {
  return { appId, spaceId, permissions: new Set(), refDomain: 'd', subject: undefined, tokenId: undefined };
}

async function store(
  { handle }: Handler,
  content: Uint8Array | string,
  contentType = 'text/plain',
): Promise<string> {
  const node = makeNode(content, { contentType });
  const first = await (await handle(leaseRequest(node.hash))).json();
  if (first.state === 'ready') return node.hash;
  const { url, headers } = first.upload;
  const body = node.bytes as Uint8Array<ArrayBuffer>;
  const put = await handle(new Request(url, { method: 'PUT', headers, body }));
  if (put.status !== 200) throw new Error(`the upload was answered ${put.status}: ${await put.text()}`);
  const second = await (await handle(leaseRequest(node.hash))).json();
  if (second.state !== 'ready') throw new Error(`the node is ${second.state}`);
  return node.hash;
}
