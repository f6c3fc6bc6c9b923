export interface Planned {
  readonly name: string;
  readonly isCheck: boolean;
  readonly isAlone: boolean;
  /** how long it is expected to take */
  readonly ms: number;
  /** how many cores it keeps busy meanwhile */
  readonly share: number;
}
export interface Limits {
  readonly cores: number;
  /** as many run side by side at most */
  readonly tasksMax: number;
}
export function makePlanned(task: {
  readonly name: string;
  readonly times?: { readonly ms: number; readonly cpuMs: number };
  readonly isCheck?: boolean;
  readonly isAlone?: boolean;
}): Planned;
export function orderPlanned(tasks: readonly Planned[]): Planned[];
export function findNext(
  waiting: readonly Planned[],
  running: readonly Planned[],
  limits: Limits,
): Planned | undefined;
export interface PlannedFile {
  readonly name: string;
  readonly times?: { readonly ms: number; readonly cpuMs: number } | undefined;
  readonly isAlone?: boolean;
  readonly engines: readonly string[];
}
export function groupShort<T extends PlannedFile>(files: readonly T[]): T[][];
export function findGroupTimes(
  files: readonly PlannedFile[],
): { readonly ms: number; readonly cpuMs: number } | undefined;
