/** A Space that a command for operators was told by name: what is spelled wrongly has nothing in it, and would look like success. */
import { type OperatorOptions, runOperation } from './operator-call.ts';
import { printNote } from './terminal/output.ts';

/** To be called when nothing was found in the Space: says so if there is no such Space. */
export async function noteIfUnknown(options: OperatorOptions, app: string, space: string): Promise<void> {
  let after: string | undefined;
  do {
    const input = { app, ...(after === undefined ? {} : { after }) };
    const { spaces, next } = await runOperation(options, 'listSpaces', input, 'nothing was changed');
    if (spaces.some((each) => each.space === space)) return;
    after = next ?? undefined;
  } while (after !== undefined);
  const [appName, spaceName] = [app, space].map((name) => JSON.stringify(name));
  printNote(`App ${appName} has no Space ${spaceName}: holdfast space list shows all that there are`);
}
