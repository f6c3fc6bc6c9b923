/** What `npm run proof` runs, in the order of what a line of it is worth. */
import { makeTempFolder } from '../test/support/temp-folder.ts';
import { runFuzz } from './fuzz/run-fuzz.ts';
import { repeatTest } from './repeat-test.ts';
import { runRowRot } from './row-rot/run.ts';

interface SectionResult {
  readonly counts: Readonly<Record<string, number>>;
  /** how each fault is met again */
  readonly found: readonly string[];
}

interface Section {
  readonly name: string;
  /** Works from `seed` until `isOver`. */
  run(options: { readonly seed: number; readonly isOver: () => boolean }): Promise<SectionResult>;
}

/** Damages go round all columns, each time in another row and bit, until the time is over. */
async function runAllRowRot(seed: number, isOver: () => boolean): Promise<SectionResult> {
  const folder = makeTempFolder('row-rot', { fast: true });
  try {
    const wanted = { folder: folder.path, seed, damagesMax: Number.MAX_SAFE_INTEGER };
    const { damages, unseen, unmended, failures } = await runRowRot({ ...wanted, goesOn: () => !isOver() });
    return {
      counts: { damages, 'unseen by check': unseen.length, 'not mended by repair': unmended.length },
      found: failures.map(({ damage, wrong }) => `seed ${seed}, ${damage}: ${wrong.join('; ')}`),
    };
  } finally {
    folder.remove();
  }
}

/** of the server and of one of its workers, in test/crash.test.ts */
const KILLS_OF_A_RUN = 50 + 8;
/** sequences of commands against the reference model, in test/model/embedded.test.ts */
const HISTORIES_OF_A_RUN = 2 * 400;

async function repeat(
  file: string,
  isOver: () => boolean,
  perRun: Readonly<Record<string, number>>,
): Promise<SectionResult> {
  const { runs, found } = await repeatTest(file, isOver);
  const counted = Object.entries(perRun).map(([what, count]) => [what, count * runs] as const);
  return { counts: { runs, ...Object.fromEntries(counted) }, found };
}

export const SECTIONS: readonly Section[] = [
  { name: 'row-rot', run: ({ seed, isOver }) => runAllRowRot(seed, isOver) },
  {
    name: 'fuzz',
    async run({ seed, isOver }) {
      const { inputs, kept, found } = runFuzz({ seed, inputs: Number.MAX_SAFE_INTEGER, isOver });
      return {
        counts: { inputs, 'kept inputs': kept },
        found: found.map(({ target, input, error }) => `${target}, base64 ${input}: ${error}`),
      };
    },
  },
  {
    name: 'kills',
    run: ({ isOver }) => repeat('test/crash.test.ts', isOver, { 'kill -9': KILLS_OF_A_RUN }),
  },
  {
    name: 'model',
    run: ({ isOver }) => repeat('test/model/embedded.test.ts', isOver, { histories: HISTORIES_OF_A_RUN }),
  },
];
