/** `npm run proof`: what takes too long for every run of the tests. Exit 1 if anything was found. */
import { appendLedger } from './ledger.ts';
import { parseProofOptions, prove } from './prove.ts';
import { shareExecutable } from './share-executable.ts';

Object.assign(process.env, await shareExecutable());
// What starts a command seeks it when it is loaded.
const { SECTIONS } = await import('./sections.ts');

const HELP = `npm run proof -- [--budget 20m] [--only SECTION] [--seed N] [--ledger]

Sections: ${SECTIONS.map(({ name }) => name).join(', ')}. They share the budget, and each ends at the end of a piece of work.
The same seed does the same work. --ledger appends what was counted and found to proof/ledger.jsonl. Exit 1 if anything was found.
`;

try {
  const options = parseProofOptions(process.argv.slice(2), SECTIONS);
  if (options === undefined) process.stdout.write(HELP);
  else {
    const { seed, only, isNoted } = options;
    const sections = SECTIONS.filter(({ name }) => only === undefined || name === only);
    const { counts, found } = await prove(sections, options, (line) => console.log(line));
    if (isNoted) appendLedger({ seed, sections: counts, found });
    // A section that hangs would keep the process.
    process.exit(found.length === 0 ? 0 : 1);
  }
} catch (error) {
  console.error(`proof: ${error instanceof Error ? error.message : error}; see npm run proof -- --help`);
  process.exit(2);
}
