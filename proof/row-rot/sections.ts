/** Row rot for `npm run proof`. */
import { openPostgres } from '../../test/support/postgres-server.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import type { SectionResult, SectionWork } from '../section.ts';
import { folderSubject, journeysSubject } from './folder.ts';
import { meanwhileSubject } from './meanwhile.ts';
import { pagesSubject } from './pages.ts';
import { postgresMeanwhileSubject, postgresSubject } from './postgres.ts';
import { runRowRot } from './run.ts';
import type { Subject } from './subject.ts';

export const rowRotSection = (work: SectionWork): Promise<SectionResult> => rotFolder(folderSubject, work);
export const journeysSection = (work: SectionWork): Promise<SectionResult> =>
  rotFolder(journeysSubject, work);
export const meanwhileSection = (work: SectionWork): Promise<SectionResult> =>
  rotFolder(meanwhileSubject, work);
export const pageRotSection = (work: SectionWork): Promise<SectionResult> => rotFolder(pagesSubject, work);

async function rotFolder(subjectIn: (folder: string) => Subject, work: SectionWork): Promise<SectionResult> {
  const folder = makeTempFolder('row-rot', { fast: true });
  try {
    return await rotUntilOver(subjectIn(folder.path), work);
  } finally {
    folder.remove();
  }
}

export const postgresRotSection = (work: SectionWork): Promise<SectionResult> =>
  rotPostgres(postgresSubject, work);
export const postgresMeanwhileSection = (work: SectionWork): Promise<SectionResult> =>
  rotPostgres(postgresMeanwhileSubject, work);

async function rotPostgres(subjectOf: (url: string) => Subject, work: SectionWork): Promise<SectionResult> {
  const databases = await openPostgres();
  try {
    return await rotUntilOver(subjectOf(await databases.createDatabase()), work);
  } finally {
    await databases.close();
  }
}

/** Damages go round all columns, each time in another row and another way, until the time is over. */
async function rotUntilOver(subject: Subject, { seed, isOver }: SectionWork): Promise<SectionResult> {
  const wanted = { subject, seed, damagesMax: Number.MAX_SAFE_INTEGER, goesOn: () => !isOver() };
  const { damages, unseen, unmended, refusals, failures } = await runRowRot(wanted);
  return {
    counts: {
      ...{ damages, 'unseen by check': unseen.length, 'not mended by repair': unmended.length },
      ...(refusals.length > 0 && { 'refused with a reason': refusals.length }),
    },
    found: failures.map(({ damage, wrong }) => `${damage}: ${wrong.join('; ')}`),
  };
}
