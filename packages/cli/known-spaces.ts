/** The Spaces that there are, as an operator sees them. */
import type { GcResult } from '@holdfast/client/internal';
import { formatBytes, formatCount } from '@holdfast/protocol';
import { type OperatorOptions, runOperation } from './operator-call.ts';
import { printJson, printLine, printNote } from './terminal/output.ts';

/** The report of a collection, as every command that collects prints it. */
export function printCollected(result: GcResult, isJson: boolean | undefined): void {
  if (isJson) {
    printJson(result);
    return;
  }
  const { examined, deleted, reclaimedContentBytes } = result;
  printLine(
    `examined ${formatCount(examined)}, deleted ${formatCount(deleted)}, reclaimed ${formatBytes(reclaimedContentBytes)}`,
  );
}

export type ListedSpace = import('@holdfast/server').OperatorOutput<'listSpaces'>['spaces'][number];

export async function readSpaces(options: OperatorOptions, app?: string): Promise<readonly ListedSpace[]> {
  const spaces: ListedSpace[] = [];
  let after: string | undefined;
  do {
    const input = {
      limit: 1_000,
      ...(app === undefined ? {} : { app }),
      ...(after === undefined ? {} : { after }),
    };
    const page = await runOperation(options, 'listSpaces', input, 'nothing was changed');
    spaces.push(...page.spaces);
    after = page.next ?? undefined;
  } while (after !== undefined);
  return spaces;
}

/** Called when nothing was found: says so if there is no such Space, because a wrong name would look like success. */
export async function noteIfUnknown(options: OperatorOptions, app: string, space: string): Promise<void> {
  const spaces = await readSpaces(options, app);
  if (spaces.some((each) => each.space === space)) return;
  const [appName, spaceName] = [app, space].map((name) => JSON.stringify(name));
  printNote(`App ${appName} has no Space ${spaceName}: holdfast space list shows all that there are`);
}
