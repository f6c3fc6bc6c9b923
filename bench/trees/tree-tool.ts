/** A tool that keeps trees, ours or a peer's, as the rows use it. */
import type { CommandRun } from './run-command.ts';

export interface ToolRun extends Omit<CommandRun, 'stdout' | 'stderr'> {
  /** CPU of a server that did part of the work, ms */
  readonly serverCpuMs?: number;
  /** requests to the server */
  readonly requests?: number;
  /** nodes that were uploaded, or read */
  readonly nodes?: number;
  /** highest resident memory of the server so far, MiB */
  readonly serverPeakMiB?: number;
  /** what the store takes on the disk after a first push, bytes */
  readonly storedBytes?: number;
}

export interface TreeTool {
  readonly name: string;
  /** what it does, or leaves out, that the others do not */
  readonly note: string;
  /** An empty store, and nothing remembered. */
  begin(): Promise<void>;
  push(input: string): Promise<ToolRun>;
  /** The last push of `input` into the folder `target`, which is not there yet. */
  pull(target: string, input: string): Promise<ToolRun>;
  /** The folder that holds the store. */
  store(): string;
  /** Takes the store away. */
  end(): Promise<void>;
}
