/** Bundles and other jobs over a server that is away for a while: what is tried again, and what is said meanwhile. */
import { expect, test } from 'bun:test';
import { createBundle } from '../../bundle/create-bundle.ts';
import { importBundle } from '../../bundle/import-bundle.ts';
import { RottenNodeError } from '../../rotten-node.ts';
import { FakeSpace, failure, readAll, rejection } from '../../test/fake-space-fixture.ts';
import { createPatientClient } from './patient-client.ts';
import { SILENT_PROGRESS } from './progress.ts';

const away = (): Response => failure(503, 'SERVICE_UNAVAILABLE', { 'retry-after': '7' });
const busy = (): Response => failure(429, 'RESOURCE_EXHAUSTED', { 'retry-after': '0' });

function open(space: FakeSpace) {
  const causes: string[] = [];
  const waiting = new Set<string>();
  let counts = 0;
  const progress = {
    ...SILENT_PROGRESS,
    count: () => {
      counts += 1;
    },
    waitFor: (cause: string) => {
      causes.push(cause);
      waiting.add(cause);
      return () => void waiting.delete(cause);
    },
  };
  const client = createPatientClient(space.client({ retry: { attemptsMax: 1 } }), {
    progress,
    clock: space.clock,
    random: () => 0.5,
  });
  return { client, causes, waiting, counted: () => counts };
}

test('a bundle outlasts a server that is away, both ways, and names it', async () => {
  const space = new FakeSpace();
  const hash = space.store('leaf');
  space.plant('metadata', away, away);
  space.plant('content', busy, busy, busy);
  const { client, causes, waiting, counted } = open(space);
  const bytes = await readAll(createBundle(client, [hash]));
  expect(causes).toContain(`no answer yet to a question for ${hash}`);
  expect(causes).toContain(`no answer yet to reading ${hash}`);
  expect(causes).toContain(`no further bytes yet of ${hash}`);
  expect(causes.filter((cause) => cause.endsWith('trying again'))).toHaveLength(5);
  const target = new FakeSpace();
  target.plant('metadata', away);
  target.plant('lease', away, busy);
  target.plant('upload', busy);
  const importing = open(target);
  const stream = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream();
  expect(await importBundle(importing.client, stream)).toMatchObject({ nodes: 1 });
  expect(importing.causes.filter((cause) => cause.endsWith('trying again'))).toHaveLength(4);
  expect([...waiting, ...importing.waiting]).toEqual([]);
  expect(counted() + importing.counted()).toBe(0);
});

test('lost bytes end it after two looks, whatever patience there is', async () => {
  const space = new FakeSpace();
  const hash = space.store('lost');
  space.plant('content', away, away, away);
  const error = await rejection(readAll(createBundle(open(space).client, [hash])));
  expect(error).toBeInstanceOf(RottenNodeError);
  expect(space.kinds()).toEqual(['metadata', 'content', 'metadata', 'content', 'metadata']);
});

test('a node too large to hold is opened anew where it broke', async () => {
  const space = new FakeSpace();
  const large = 'x'.repeat(4 * 1024 * 1024 + 1);
  const hash = space.store(large);
  const whole = await readAll(createBundle(space.client(), [hash]));
  // Looked at, described, then opened as a stream that is refused at first.
  space.plant('content', () => undefined as unknown as Response, busy);
  expect(await readAll(createBundle(open(space).client, [hash]))).toEqual(whole);
});
