/** Objects that were read back from a file: each has its fields and no other, and each field its one form. */

/** For each field, a check of its form. An optional field accepts undefined. */
export type Shape<T extends object> = Readonly<
  Record<keyof Required<T> & string, (value: unknown) => boolean>
>;

export function takeShape<T extends object>(value: unknown, shape: Shape<T>): T | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const fields = Object.entries<(value: unknown) => boolean>(shape);
  const isKnown = Object.keys(value).every((name) => Object.hasOwn(shape, name));
  const hasForm = fields.every(([name, isRight]) => isRight(Reflect.get(value, name)));
  return isKnown && hasForm ? (value as T) : undefined;
}

export const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;
/** 8.64e15 is the last instant that a Date can have, in milliseconds. */
export const isTime = (value: unknown): boolean => isCount(value) && value <= 8.64e15;
/** sha256, hex */
export const isDigest = (value: unknown): boolean =>
  typeof value === 'string' && /^[0-9a-f]{64}$/.test(value);
