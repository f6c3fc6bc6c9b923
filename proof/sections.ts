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

/** A drawing of damages goes once over all columns; the next seed draws other rows and bits of them. */
async function runAllRowRot(first: number, isOver: () => boolean): Promise<SectionResult> {
  const found: string[] = [];
  const counts = { damages: 0, 'unseen by check': 0, 'not mended by repair': 0 };
  for (let seed = first; !isOver(); seed += 1) {
    const folder = makeTempFolder('row-rot', { fast: true });
    try {
      const goesOn = (): boolean => !isOver();
      const result = await runRowRot({
        folder: folder.path,
        seed,
        damagesMax: Number.MAX_SAFE_INTEGER,
        goesOn,
      });
      counts.damages += result.damages;
      counts['unseen by check'] += result.unseen.length;
      counts['not mended by repair'] += result.unmended.length;
      found.push(
        ...result.failures.map(({ damage, wrong }) => `seed ${seed}, ${damage}: ${wrong.join('; ')}`),
      );
    } finally {
      folder.remove();
    }
  }
  return { counts, found };
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
