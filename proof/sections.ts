/** What `npm run proof` runs, in the order of what a line of it is worth. */
import { faultsSection } from './faults/section.ts';
import { fuzzSection } from './fuzz/run-fuzz.ts';
import { historiesSection } from './histories/section.ts';
import { runKills } from './kills/run-kills.ts';
import { runModel } from './model/run-model.ts';
import { mutationSection } from './mutation/section.ts';
import { runPowerLoss } from './power-loss/run-power-loss.ts';
import { protocolSection } from './protocol/section.ts';
import {
  journeysSection,
  meanwhileSection,
  pageRotSection,
  postgresMeanwhileSection,
  postgresRotSection,
  rowRotSection,
} from './row-rot/sections.ts';
import { schedulesSection } from './schedules/section.ts';
import type { Section } from './section.ts';

export const SECTIONS: readonly Section[] = [
  { name: 'row-rot', run: rowRotSection },
  { name: 'row-rot-meanwhile', run: meanwhileSection },
  { name: 'row-rot-journeys', run: journeysSection },
  { name: 'row-rot-pages', run: pageRotSection },
  { name: 'row-rot-postgres', run: postgresRotSection },
  { name: 'row-rot-postgres-meanwhile', run: postgresMeanwhileSection },
  { name: 'power-loss', run: runPowerLoss },
  { name: 'faults', run: faultsSection },
  { name: 'fuzz', run: fuzzSection },
  { name: 'schedules', run: schedulesSection },
  { name: 'protocol', run: protocolSection },
  { name: 'histories', run: historiesSection },
  { name: 'kills', run: runKills },
  { name: 'model', run: runModel },
  { name: 'mutation', run: mutationSection },
];
