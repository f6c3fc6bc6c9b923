export function formatDuration(ms: number): string;
export function formatProgress(state: {
  readonly done: number;
  readonly all: number;
  readonly tookMs: number;
  readonly failed: number;
  readonly names: readonly string[];
}): string;
export function makeScreen(
  stream: { readonly columns?: number; write(text: string): void },
  read: () => string,
  options?: { readonly isTerminal?: boolean; readonly everyMs?: number },
): { print(text: string): void; end(): void };
