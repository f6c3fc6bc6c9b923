/** Leases and PUTs of the real engine, each answer judged by the model. */
import { expect } from 'bun:test';
import { type LeaseResponse, NODE_MEDIA_TYPE } from '@holdfast/protocol';
import { leaseNode } from '../../packages/server/core/lease/lease-node.ts';
import { receiveUpload } from '../../packages/server/core/packs/receive-upload.ts';
import { beginPutDirectly, endPutDirectly, putDirectly, putDirectlyForged } from './apply-direct-put.ts';
import { POOL, type PoolNode } from './node-pool.ts';
import { MODEL_SETTINGS } from './reference-rules.ts';
import type { ExpectedLease } from './reference-space.ts';
import type { BodyKind, HeaderKind, UploadStep } from './steps.ts';
import { type Answer, at, type KnownUrl, ORIGIN, type World } from './world.ts';

const WRONG_STATUS: Record<string, number> = { FORBIDDEN: 403, CONFLICT: 412, PAYLOAD_TOO_LARGE: 413 };

export async function lease(world: World, space: number, node: PoolNode, durationMs: number): Promise<void> {
  const answer = await world.ask(() =>
    leaseNode(world.core, world.space(space), node.hash, durationMs, () => ORIGIN),
  );
  const before = world.model(space).nodes.get(node.hash)?.state;
  const expected = world.model(space).lease(world.now, node.hash, durationMs);
  seeLease(world, node, before, expected);
  judgeLease(world, space, node, answer, expected);
}

function seeLease(world: World, node: PoolNode, before: string | undefined, expected: ExpectedLease): void {
  if ('error' in expected) world.see(`lease: ${expected.error}`);
  else if ('upload' in expected) world.see(`lease: ${expected.rejection ?? expected.state}`);
  else if (expected.state !== 'ready') world.see(`lease: ${expected.state}`);
  else
    world.see(
      `lease: ${before === undefined ? 'published' : `${before} made ready`}${node.refs.length > 0 ? ', a parent' : ''}`,
    );
}

/** Leases of one hash at once: any order gives the same rows; only a ready answer names its own duration. */
export async function leaseTogether(
  world: World,
  space: number,
  node: PoolNode,
  durationsMs: readonly number[],
): Promise<void> {
  const answers = await Promise.all(
    durationsMs.map((durationMs) =>
      world.ask(() => leaseNode(world.core, world.space(space), node.hash, durationMs, () => ORIGIN)),
    ),
  );
  const expected = durationsMs.map((durationMs) =>
    world.model(space).lease(world.now, node.hash, durationMs),
  );
  const last = expected.at(-1);
  for (const [index, answer] of answers.entries()) {
    const own = expected[index] as ExpectedLease;
    if (!('state' in own) || own.state !== 'ready' || last === undefined || !('state' in last)) {
      judgeLease(world, space, node, answer, own);
      continue;
    }
    const { leaseExpiresAt, ...rest } = getOk(answer) as Extract<LeaseResponse, { state: 'ready' }>;
    expect(rest).toEqual({ state: 'ready', hash: node.hash, leaseStartedAt: own.leaseStartedAt });
    const atLeast = world.now + Math.min(Math.max(durationsMs[index] as number, 60_000), 86_400_000);
    expect(leaseExpiresAt).toBeGreaterThanOrEqual(atLeast);
    expect(leaseExpiresAt).toBeLessThanOrEqual((last as { leaseExpiresAt: number }).leaseExpiresAt);
  }
}

function judgeLease(
  world: World,
  space: number,
  node: PoolNode,
  answer: Answer<LeaseResponse>,
  expected: ExpectedLease,
): void {
  if ('error' in expected) {
    expect(answer).toMatchObject({ error: expected.error, status: 429 });
    return;
  }
  const got = getOk(answer);
  if (!('upload' in expected)) {
    expect(got as unknown).toEqual({ hash: node.hash, ...expected });
    return;
  }
  expect(got.state).toBe(expected.state);
  if (!('upload' in got)) throw new Error('unreachable: the states are equal');
  const { upload } = got;
  expect(Object.keys(got).sort()).toEqual(
    expected.rejection === undefined ? ['hash', 'state', 'upload'] : ['hash', 'rejection', 'state', 'upload'],
  );
  if ('rejection' in got) {
    expect(got.rejection.code as string).toBe(expected.rejection as string);
    expect(got.rejection.message.length).toBeGreaterThan(0);
  }
  expect(upload.method).toBe('PUT');
  // A store that takes the PUT itself judges its URLs in whole seconds.
  const stepMs = world.engine.direct === undefined ? 1 : 1000;
  expect(expected.expiresAt.map((at) => at - (at % stepMs))).toContain(upload.expiresAt);
  expect(upload.headers['content-type']).toBe(NODE_MEDIA_TYPE);
  expect(upload.headers['if-none-match']).toBe('*');
  expected.upload.urlExpiresAt = Math.max(expected.upload.urlExpiresAt, upload.expiresAt);
  world.urls.push({ space, node, generation: expected.upload.generation, instruction: upload });
}

function getOk<T>(answer: Answer<T>): T {
  if ('ok' in answer) return answer.ok;
  throw new Error(`expected success, got ${answer.status} ${answer.error}: ${answer.message}`);
}

export async function applyUploadStep(world: World, step: UploadStep): Promise<void> {
  switch (step.do) {
    case 'put': {
      const url = pickUrl(world, step.pick);
      if (url !== undefined)
        await put(world, url, makeBody(url.node, step.body), step.headers, step.declared);
      return;
    }
    case 'forge': {
      const url = pickUrl(world, step.pick);
      if (url !== undefined) await putForged(world, url, step.at);
      return;
    }
    case 'beginPut': {
      const url = pickUrl(world, step.pick);
      if (url !== undefined) await beginPut(world, url, makeBody(url.node, step.body), step.declared);
      return;
    }
    case 'finishPut':
    case 'abortPut':
      if (world.openPuts.length > 0)
        await endPut(world, step.pick, step.do === 'finishPut' ? 'finish' : 'abort');
  }
}

/** Small picks are the newest URLs: most PUTs go where a client would send them, some to long stale ones. */
function pickUrl(world: World, pick: number): KnownUrl | undefined {
  return world.urls.length === 0 ? undefined : at([...world.urls].reverse(), pick);
}

export function makeBody(node: PoolNode, kind: BodyKind): Uint8Array {
  switch (kind) {
    case 'good':
      return node.bytes;
    case 'other':
      return at(POOL, POOL.indexOf(node) + 1).bytes.slice(0, MODEL_SETTINGS.nodeBytesMax);
    case 'truncated':
      return node.bytes.slice(0, -1);
    case 'oversized':
      return new Uint8Array(MODEL_SETTINGS.nodeBytesMax + 1);
    case 'empty':
      return new Uint8Array(0);
  }
}

function makeHeaders(kind: HeaderKind): { contentType: string | undefined; ifNoneMatch: string | undefined } {
  const right = { contentType: NODE_MEDIA_TYPE, ifNoneMatch: '*' };
  switch (kind) {
    case 'right':
      return right;
    case 'no-if-none-match':
      return { ...right, ifNoneMatch: undefined };
    case 'wrong-if-none-match':
      return { ...right, ifNoneMatch: '"abc"' };
    case 'wrong-type':
      return { ...right, contentType: 'application/octet-stream' };
    case 'no-type':
      return { ...right, contentType: undefined };
  }
}

export async function put(
  world: World,
  url: KnownUrl,
  body: Uint8Array,
  headers: HeaderKind,
  isDeclared: boolean,
): Promise<void> {
  if (world.engine.direct !== undefined) return putDirectly(world, url, body, headers);
  const answer = await world.ask(() =>
    receiveUpload(world.core, {
      token: tokenOf(url.instruction.url),
      ...makeHeaders(headers),
      declaredLength: isDeclared ? body.length : undefined,
      body: makeStream(body),
    }),
  );
  judgePut(world, url, body, headers, answer);
}

function judgePut(
  world: World,
  url: KnownUrl,
  body: Uint8Array,
  headers: HeaderKind,
  answer: Answer<void>,
): void {
  const model = world.model(url.space);
  let error: string | undefined;
  if (url.instruction.expiresAt <= world.now || headers !== 'right') error = 'FORBIDDEN';
  else if (!model.acceptsPut(url.node.hash, url.generation)) error = 'CONFLICT';
  else {
    model.finishPut(url.node.hash, body);
    if (body.length > MODEL_SETTINGS.nodeBytesMax) error = 'PAYLOAD_TOO_LARGE';
  }
  expectPut(world, answer, error);
}

function expectPut(world: World, answer: Answer<void>, error: string | undefined): void {
  world.see(`put: ${error ?? 'accepted'}`);
  if (error === undefined) expect(answer).toEqual({ ok: undefined });
  else expect(answer).toMatchObject({ error, status: WRONG_STATUS[error] as number });
}

/** One character of the signed URL changed: never accepted, whatever it was. */
async function putForged(world: World, url: KnownUrl, position: number): Promise<void> {
  if (world.engine.direct !== undefined) return putDirectlyForged(world, url, position);
  const token = tokenOf(url.instruction.url);
  const index = position % token.length;
  const replacement = token[index] === 'A' ? 'B' : 'A';
  const answer = await world.ask(() =>
    receiveUpload(world.core, {
      token: token.slice(0, index) + replacement + token.slice(index + 1),
      ...makeHeaders('right'),
      declaredLength: url.node.bytes.length,
      body: makeStream(url.node.bytes),
    }),
  );
  expectPut(world, answer, 'FORBIDDEN');
}

async function beginPut(world: World, url: KnownUrl, body: Uint8Array, isDeclared: boolean): Promise<void> {
  if (world.engine.direct !== undefined) return beginPutDirectly(world, url, body);
  const model = world.model(url.space);
  const id = world.nextId();
  const half = Math.floor(body.length / 2);
  const { stream, wanted, controller } = makeControlledStream(body.slice(0, half));
  const answer = world.ask(() =>
    receiveUpload(world.core, {
      token: tokenOf(url.instruction.url),
      ...makeHeaders('right'),
      declaredLength: isDeclared ? body.length : undefined,
      body: stream,
    }).catch(asBrokenOff),
  );
  const early = await Promise.race([answer, wanted.then(() => undefined)]);
  if (early !== undefined) return judgePut(world, url, body, 'right', early);
  expect(url.instruction.expiresAt).toBeGreaterThan(world.now);
  expect(model.acceptsPut(url.node.hash, url.generation)).toBe(true);
  const upload = model.uploads.get(url.node.hash);
  if (upload !== undefined) upload.receiving += 1;
  if (isDeclared) model.receiving.set(id, body.length);
  const end = async (how: 'finish' | 'abort'): Promise<Answer<void>> => {
    if (how === 'abort') controller.error(new BrokenOff('the client went away'));
    else {
      if (body.length > half) controller.enqueue(body.slice(half));
      controller.close();
    }
    return answer;
  };
  world.openPuts.push({ id, url, body, end });
}

export async function endPut(world: World, pick: number, how: 'finish' | 'abort'): Promise<void> {
  const open = at(world.openPuts, pick);
  world.openPuts.splice(world.openPuts.indexOf(open), 1);
  if (world.engine.direct !== undefined) return endPutDirectly(world, open, how);
  const { url, body } = open;
  const model = world.model(url.space);
  const answer = await open.end(how);
  model.receiving.delete(open.id);
  const upload = model.uploads.get(url.node.hash);
  if (upload?.generation === url.generation) upload.receiving -= 1;
  world.see(`overlapping put: ${how}`);
  if (how === 'abort') return;
  if (model.acceptsPut(url.node.hash, url.generation)) {
    model.finishPut(url.node.hash, body);
    return expectPut(
      world,
      answer,
      body.length > MODEL_SETTINGS.nodeBytesMax ? 'PAYLOAD_TOO_LARGE' : undefined,
    );
  }
  // Cut off for its length or turned away as the loser: docs/api.md does not rank the two.
  if (body.length > MODEL_SETTINGS.nodeBytesMax && 'error' in answer && answer.status === 413) return;
  expectPut(world, answer, 'CONFLICT');
}

/** The planted break as the server sees it; `receiveUpload` may throw it without failing the test. */
class BrokenOff extends Error {
  override readonly name = 'BrokenOff';
}

function asBrokenOff(error: unknown): void {
  if (!(error instanceof BrokenOff) && !(error instanceof Error && error.cause instanceof BrokenOff))
    throw error;
}

function tokenOf(url: string): string {
  const prefix = `${ORIGIN}/uploads/`;
  expect(url.startsWith(prefix)).toBe(true);
  return url.slice(prefix.length);
}

function makeStream(body: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      if (body.length > 0) controller.enqueue(body.slice());
      controller.close();
    },
  });
}

/** A body that stops after `first` until told; `wanted` resolves when the server asks for what comes next. */
function makeControlledStream(first: Uint8Array) {
  let isFirst = true;
  const { promise: wanted, resolve } = Promise.withResolvers<void>();
  let held: ReadableStreamDefaultController<Uint8Array> | undefined;
  const stream = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        held = controller;
      },
      pull(controller) {
        if (!isFirst || first.length === 0) return resolve();
        isFirst = false;
        controller.enqueue(first);
      },
    },
    { highWaterMark: 0 },
  );
  if (held === undefined) throw new Error('a stream starts at once');
  return { stream, wanted, controller: held };
}
