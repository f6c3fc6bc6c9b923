/** What `npm run proof` runs, in the order of what a line of it is worth. */
import { runFuzz } from './fuzz/run-fuzz.ts';

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

export const SECTIONS: readonly Section[] = [
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
];
