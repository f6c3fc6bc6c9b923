/** Text that somebody else wrote, as the value that it stands for. `undefined`: it stands for none. */

/** JSON; its errors quote what they read, which may be a secret, so they are not passed on. */
export function findJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The text that is percent-encoded UTF-8. */
export function findDecoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
