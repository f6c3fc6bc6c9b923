/** The cost of a Space of a million nodes against one of a thousand: usage, a GC pass, a lease, a page of roots. */
import { type Bench, interleave, type Row, type RowResult } from '../bench.ts';
import { fillSpaces } from '../fill.ts';
import { call, type EnteredSpace, type Holdfast, startHoldfast } from '../holdfast.ts';
import { type LoadSample, loadFixed, runLoad } from '../load/run-load.ts';
import { formatCollection, formatLease, formatRead } from '../load/space-requests.ts';
import type { RequestTemplate } from '../load/spec.ts';
import { describeLoad } from './notes.ts';

export const SCALE_ROW: Row = { name: 'scale', packages: ['wrk'], run: runScaleRow };

const GC_NODES = 50;
/** A Space of a thousand has five hundred candidates, so eight passes of fifty always find their fill. */
const GC_PASSES = 8;
const PAGES = 3;
const PAGE_ITEMS = 50;

interface ScaledServer {
  readonly server: Holdfast;
  readonly held: readonly string[];
  /** the Space whose candidates round `n` may collect */
  readonly collectable: (round: number) => EnteredSpace;
}

async function runScaleRow(bench: Bench): Promise<readonly RowResult[]> {
  const { small, large } = bench.scaleNodes;
  const ofSmall = await startFilled(bench, 'small', small);
  try {
    const ofLarge = await startFilled(bench, 'large', large);
    try {
      return await compareSizes(bench, ofSmall, ofLarge);
    } finally {
      await ofLarge.server.close();
    }
  } finally {
    await ofSmall.server.close();
  }
}

/** The large store has one Space; the small one has one to read and one more per round, since collecting empties it. */
async function startFilled(bench: Bench, name: 'small' | 'large', count: number): Promise<ScaledServer> {
  const spaces =
    name === 'large' ? ['s0'] : Array.from({ length: bench.rounds + 2 }, (_, index) => `s${index}`);
  let held: readonly string[] = [];
  const server = await startHoldfast(bench, {
    name: `scale-${name}`,
    spaces,
    fill: async (dataFolder) => {
      bench.progress(`filling ${spaces.length} × ${count} nodes …`);
      held = (await fillSpaces(dataFolder, spaces, count)).held;
    },
  });
  // Round 0 collects in the Space after the first, so that the one that is read keeps its thousand.
  const collectable = (round: number): EnteredSpace =>
    server.spaces[(round + 1) % spaces.length] as EnteredSpace;
  return { server, held, collectable };
}

async function compareSizes(bench: Bench, small: ScaledServer, large: ScaledServer): Promise<RowResult[]> {
  const usage = (side: ScaledServer) => [formatRead(side.server, '/cas/usage')];
  const lease = (side: ScaledServer) => side.held.map((hash) => formatLease(side.server, hash));
  const pages = {
    small: await formatPages(small.server),
    large: await formatPages(large.server),
  };
  const results = [
    await compareTimes(bench, 'scale-usage', 'getUsage', small, large, usage),
    await compareTimes(bench, 'scale-lease', 'durable renewal of a ready lease', small, large, lease),
    await compareTimes(bench, 'scale-page', `listRootRefs, pages of ${PAGE_ITEMS}`, small, large, (side) =>
      side === small ? pages.small : pages.large,
    ),
  ];
  return [...results, await comparePasses(bench, small, large)];
}

async function compareTimes(
  bench: Bench,
  row: string,
  workload: string,
  small: ScaledServer,
  large: ScaledServer,
  requests: (side: ScaledServer) => readonly RequestTemplate[],
): Promise<RowResult> {
  const samples = await interleave(
    bench,
    () => loadFixed(bench, large.server, requests(large)),
    () => loadFixed(bench, small.server, requests(small)),
  );
  const microseconds = (sample: LoadSample): number => (sample.elapsedMs * 1000) / sample.done;
  return describeScale(bench, row, `${workload}, ${bench.connections} connections`, 'µs each', {
    large: samples.a.map(microseconds),
    small: samples.b.map(microseconds),
    notes: [describeLoad('large', samples.a), describeLoad('small', samples.b)],
  });
}

/** Passes run one after another on one connection: each is a run of transactions of its own. */
async function comparePasses(bench: Bench, small: ScaledServer, large: ScaledServer): Promise<RowResult> {
  const nodes = bench.quick ? 5 : GC_NODES;
  const pass = async (side: ScaledServer, round: number): Promise<LoadSample> => {
    const space = side.collectable(round);
    const before = await call<{ nodeCount: number }>(space, 'GET', '/cas/usage');
    const request = formatCollection(space, nodes);
    const sample = await runLoad(
      bench,
      side.server.process,
      {
        port: side.server.port,
        connections: 1,
        seconds: 60,
        stepsMax: GC_PASSES,
        seed: 'gc',
        flow: { kind: 'fixed', requests: [request], status: 200 },
      },
      'own',
    );
    const after = await call<{ nodeCount: number }>(space, 'GET', '/cas/usage');
    if (before.nodeCount - after.nodeCount !== nodes * GC_PASSES) {
      throw new Error(`${GC_PASSES} passes of ${nodes} deleted ${before.nodeCount - after.nodeCount} nodes.`);
    }
    return sample;
  };
  const samples = await interleave(
    bench,
    (round) => pass(large, round),
    (round) => pass(small, round),
  );
  return describeScale(bench, 'scale-gc', `a GC pass that deletes ${nodes} nodes, 1 connection`, 'ms each', {
    large: samples.a.map((sample) => sample.latencyMs.p50),
    small: samples.b.map((sample) => sample.latencyMs.p50),
    notes: [],
  });
}

function describeScale(
  bench: Bench,
  row: string,
  workload: string,
  unit: string,
  sides: { large: readonly number[]; small: readonly number[]; notes: readonly string[] },
): RowResult {
  const { small, large } = bench.scaleNodes;
  const label = (count: number): string => `${count.toLocaleString('en-US')} nodes`;
  return {
    row,
    workload,
    target: {
      figure: 'ratio',
      sense: 'at most',
      bound: 2,
      text: `at ${label(large)} ≤ 2 × its time at ${label(small)}`,
    },
    ours: { label: label(large), unit, values: sides.large },
    peer: { label: label(small), unit, values: sides.small },
    notes: sides.notes,
  };
}

/** The first pages of one walk; all full, in the small Space too. */
async function formatPages(server: Holdfast): Promise<RequestTemplate[]> {
  const requests: RequestTemplate[] = [];
  let cursor: string | null = '';
  while (requests.length < PAGES && cursor !== null) {
    const query: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const path = `/root-refs?limit=${PAGE_ITEMS}${query}`;
    const page: { items: unknown[]; nextCursor: string | null } = await call(server, 'GET', path);
    if (page.items.length === PAGE_ITEMS) requests.push(formatRead(server, path));
    cursor = page.nextCursor;
  }
  if (requests.length === 0) throw new Error('The filled Space has no full page of roots.');
  return requests;
}
