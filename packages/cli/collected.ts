/** The report of a collection, as every command that collects prints it. */
import type { GcResult } from '@holdfast/client/internal';
import { formatBytes, formatCount } from '@holdfast/protocol';
import { printJson, printLine } from './terminal/output.ts';

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
