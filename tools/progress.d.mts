export function formatDuration(ms: number): string;
export function formatProgress(state: {
  readonly done: number;
  readonly all: number;
  readonly tookMs: number;
  readonly failed: number;
  readonly names: readonly string[];
}): string;
export function makeScreen(
  stream: { write(text: string): void },
  read: () => string,
  everyMs?: number,
): { print(text: string): void; end(): void };
