/** Commits and pages of the real engine, each answer judged by the model. */
import { expect } from 'bun:test';
import type { RootRefPage } from '@holdfast/protocol';
import { listRootRefs } from '../../packages/server/core/refs/list-root-refs.ts';
import { updateRootRefs } from '../../packages/server/core/refs/update-root-refs.ts';
import { MODEL_SETTINGS } from './reference-rules.ts';
import type { RootRefStep } from './steps.ts';
import { type Answer, at, DOMAINS, type KnownCursor, type KnownRequest, type World } from './world.ts';

export async function applyRootRefStep(world: World, step: RootRefStep): Promise<void> {
  switch (step.do) {
    case 'commit': {
      const changes = Object.fromEntries(
        step.changes.map(([node, delta]) => [at(world.focus, node).hash, delta]),
      );
      const request = {
        space: step.space,
        domain: step.domain,
        requestId: `r${world.requests.length}`,
        changes,
      };
      world.requests.push(request);
      return commit(world, request);
    }
    case 'replay': {
      if (world.requests.length === 0) return;
      const known = at([...world.requests].reverse(), step.pick);
      return commit(world, step.alter ? alter(known) : known);
    }
    case 'page':
      return firstPage(world, step.space, step.domain, step.limit);
    case 'nextPage': {
      if (world.cursors.length === 0) return;
      return nextPage(world, at([...world.cursors].reverse(), step.pick), step.limit, step.scope);
    }
    case 'forgedCursor': {
      if (world.cursors.length === 0) return;
      return forgedPage(world, at(world.cursors, step.pick), step.at);
    }
  }
}

/** The same hashes with one delta changed: another payload under the same id. */
function alter(known: KnownRequest): KnownRequest {
  const entries = Object.entries(known.changes);
  const changes = Object.fromEntries(
    entries.map(([hash, delta], index) => [hash, index === 0 ? delta + 1 : delta]),
  );
  return { ...known, changes };
}

async function commit(world: World, request: KnownRequest): Promise<void> {
  const { space, domain, requestId, changes } = request;
  const model = world.model(space);
  const sorted = Object.keys(changes)
    .sort()
    .map((hash) => ({ hash, delta: changes[hash] as number }));
  const name = at(DOMAINS, domain);
  await learnForgotten(world, request);
  const answer = await world.ask(() =>
    updateRootRefs(world.core, world.space(space), name, { requestId, changes: sorted }),
  );
  const expected = model.rootRefs.commit(name, requestId, changes, world.now, (hash) => model.targetOf(hash));
  if ('success' in expected) {
    world.see(expected.idempotent ? 'commit: replayed' : 'commit: applied');
    expect(answer).toEqual({ ok: expected });
    return;
  }
  world.see(`commit: ${expected.error}`);
  expect(answer).toMatchObject({ error: expected.error, status: expected.error === 'NOT_FOUND' ? 404 : 409 });
  if (expected.mentions !== undefined && 'error' in answer)
    expect(answer.message).toContain(expected.mentions);
}

/** When exactly an old commit is forgotten is the engine's matter. */
async function learnForgotten(world: World, { space, domain, requestId }: KnownRequest): Promise<void> {
  const { rootRefs } = world.model(space);
  const name = at(DOMAINS, domain);
  const find = { name, requestId };
  const isKept = await world.core.metadata.transact(
    world.space(space),
    async (tx, wanted) => (await tx.findRootRefCommit(wanted.name, wanted.requestId)) !== undefined,
    find,
  );
  expect(isKept && !rootRefs.knows(name, requestId)).toBe(false);
  if (isKept || !rootRefs.knows(name, requestId)) return;
  expect(rootRefs.forget(name, requestId, world.now - MODEL_SETTINGS.commitRecordsKeptMs)).toBe(true);
  world.see('commit: forgotten');
}

async function firstPage(world: World, space: number, domain: number, limit: number): Promise<void> {
  const name = at(DOMAINS, domain);
  const answer = await world.ask(() =>
    listRootRefs(world.core, world.space(space), name, { limit, cursor: undefined }),
  );
  const revision = world.model(space).rootRefs.revision(name);
  judgePage(world, { space, domain, revision, after: '', walkStartedAt: world.now }, limit, answer);
}

async function nextPage(
  world: World,
  known: KnownCursor,
  limit: number,
  scope: 'own' | 'space' | 'domain',
): Promise<void> {
  const space = scope === 'space' ? 1 - known.space : known.space;
  const domain = scope === 'domain' ? 1 - known.domain : known.domain;
  const name = at(DOMAINS, domain);
  const answer = await world.ask(() =>
    listRootRefs(world.core, world.space(space), name, { limit, cursor: known.cursor }),
  );
  if (scope !== 'own') {
    expect(answer).toMatchObject({ error: 'INVALID_REQUEST', status: 400 });
    return;
  }
  const isOld = world.now - known.walkStartedAt >= MODEL_SETTINGS.rootRefHistoryMs;
  if (isOld && 'error' in answer) {
    world.see('page: cursor too old');
    expect(answer).toMatchObject({ error: 'CONFLICT', status: 409 });
    return;
  }
  if (world.model(space).rootRefs.revision(name) > known.revision) world.see('page: of an older revision');
  judgePage(world, known, limit, answer);
}

async function forgedPage(world: World, known: KnownCursor, position: number): Promise<void> {
  const index = position % known.cursor.length;
  const replacement = known.cursor[index] === 'A' ? 'B' : 'A';
  const cursor = known.cursor.slice(0, index) + replacement + known.cursor.slice(index + 1);
  const answer = await world.ask(() =>
    listRootRefs(world.core, world.space(known.space), at(DOMAINS, known.domain), { limit: 1, cursor }),
  );
  expect(answer).toMatchObject({ error: 'INVALID_REQUEST', status: 400 });
}

function judgePage(
  world: World,
  walk: Omit<KnownCursor, 'cursor'>,
  limit: number,
  answer: Answer<RootRefPage>,
): void {
  if ('error' in answer) throw new Error(`expected a page, got ${answer.status} ${answer.message}`);
  const { nextCursor, ...page } = answer.ok;
  const name = at(DOMAINS, walk.domain);
  const { hasMore, ...expected } = world
    .model(walk.space)
    .rootRefs.page(name, walk.revision, walk.after, limit);
  expect(page as unknown).toEqual(expected);
  expect(nextCursor !== null).toBe(hasMore);
  const last = page.items.at(-1);
  if (nextCursor !== null && last !== undefined)
    world.cursors.push({ ...walk, cursor: nextCursor, after: last.hash });
}
