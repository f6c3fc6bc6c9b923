/** PUTs to a store that takes them itself, each answer judged by the model. */
import { expect } from 'bun:test';
import type { ModelRecord } from './reference-packs.ts';
import type { HeaderKind } from './steps.ts';
import type { KnownPack, KnownUrl, OpenPut, World } from './world.ts';

/** S3 has both for an object that is there. */
const ALREADY_THERE = [409, 412];

export async function putDirectly(
  world: World,
  url: KnownUrl,
  body: Uint8Array,
  headers: HeaderKind,
): Promise<void> {
  // The store has the real time; by the world's the URL has run out, and a store of that time would say so.
  if (url.instruction.expiresAt <= world.now) return world.see('put: FORBIDDEN');
  const status = await send(url.instruction.url, makeHeaders(url, headers), body);
  if (headers !== 'right') {
    world.see('put: FORBIDDEN');
    expect(status).toBe(403);
    return;
  }
  await judge(world, url, body, status);
}

async function judge(world: World, url: KnownUrl, body: Uint8Array, status: number): Promise<void> {
  const model = world.model(url.space);
  const upload = model.uploads.get(url.node.hash);
  if (upload?.generation !== url.generation) return judgeLate(world, url, body, status);
  if (upload.object !== undefined) {
    world.see('put: CONFLICT');
    expect(ALREADY_THERE).toContain(status);
    return;
  }
  world.see('put: accepted');
  expect(status).toBe(200);
  // A body over the limit is accepted, and judged by the next lease.
  model.finishPut(url.node.hash, body);
}

/** The generation is over: whether its object is still there is not fixed, and what is put there counts for nothing. */
async function judgeLate(world: World, url: KnownUrl, body: Uint8Array, status: number): Promise<void> {
  world.see(status === 200 ? 'put: of a generation that is over' : 'put: CONFLICT');
  expect([200, ...ALREADY_THERE]).toContain(status);
  const row = await world.core.metadata.findNode(world.space(url.space), url.node.hash);
  const node = world.model(url.space).nodes.get(url.node.hash);
  const isOfRow = row !== undefined && new URL(url.instruction.url).pathname.endsWith(row.generation);
  if (status !== 200 || !isOfRow || node === undefined) return;
  // Only where the object was lost is there room: the very bytes are as good as ever, any others are damage.
  expect(node.state === 'claimed' || node.bytes === 'lost').toBe(true);
  if (node.state !== 'claimed') node.bytes = Buffer.compare(body, url.node.bytes) === 0 ? 'good' : 'flipped';
}

/** One character of the signature changed: never accepted. */
export async function putDirectlyForged(world: World, url: KnownUrl, position: number): Promise<void> {
  const forged = new URL(url.instruction.url);
  const signature = forged.searchParams.get('X-Amz-Signature') ?? '';
  const index = position % signature.length;
  const other = signature[index] === '0' ? '1' : '0';
  forged.searchParams.set('X-Amz-Signature', signature.slice(0, index) + other + signature.slice(index + 1));
  world.see('put: FORBIDDEN');
  expect(await send(forged.href, makeHeaders(url, 'right'), url.node.bytes)).toBe(403);
}

/** The store judges the URL when the headers arrive, and decides when the body has ended: so it is sent then. */
export async function beginPutDirectly(world: World, url: KnownUrl, body: Uint8Array): Promise<void> {
  if (url.instruction.expiresAt <= world.now) return;
  const end = async (): Promise<never> => {
    throw new Error('a direct PUT ends by endPutDirectly');
  };
  world.openPuts.push({ id: world.nextId(), url, body, end });
}

export async function endPutDirectly(world: World, open: OpenPut, how: 'finish' | 'abort'): Promise<void> {
  world.see(`overlapping put: ${how}`);
  if (how === 'abort') return;
  const { url, body } = open;
  await judge(world, url, body, await send(url.instruction.url, makeHeaders(url, 'right'), body));
}

/** A pack is accepted by the store, whatever is in it; what comes to one that is over counts for nothing. */
export async function putPackDirectly(
  world: World,
  { instruction, model, space }: KnownPack,
  body: Uint8Array,
  records: readonly ModelRecord[],
  isCut: boolean,
): Promise<void> {
  if (instruction.expiresAt <= world.now) return;
  const status = await send(instruction.url, instruction.headers, body);
  if (world.model(space).packs.put(model, records, isCut)) {
    world.see('pack: accepted');
    expect(status).toBe(200);
  } else {
    world.see('pack: finished already');
    expect([200, ...ALREADY_THERE]).toContain(status);
  }
}

async function send(url: string, headers: Record<string, string>, body: Uint8Array): Promise<number> {
  const response = await fetch(url, { method: 'PUT', headers, body: body as Uint8Array<ArrayBuffer> });
  await response.arrayBuffer();
  return response.status;
}

function makeHeaders({ instruction }: KnownUrl, kind: HeaderKind): Record<string, string> {
  const { 'content-type': contentType, 'if-none-match': ifNoneMatch, ...others } = instruction.headers;
  const right = { 'content-type': contentType ?? '', 'if-none-match': ifNoneMatch ?? '' };
  switch (kind) {
    case 'right':
      return { ...others, ...right };
    case 'no-if-none-match':
      return { ...others, 'content-type': right['content-type'] };
    case 'wrong-if-none-match':
      return { ...others, ...right, 'if-none-match': '"abc"' };
    case 'wrong-type':
      return { ...others, ...right, 'content-type': 'application/octet-stream' };
    case 'no-type':
      return { ...others, 'if-none-match': right['if-none-match'] };
  }
}
