/** Keys that one wrong bit makes of each other. Pure. */

const DIGIT_BITS = [1, 2, 4, 8] as const;

/** The hex texts that differ in one bit. */
export function neighboursOf(hex: string): string[] {
  return [...hex].flatMap((digit, at) =>
    DIGIT_BITS.map((bit) => {
      const changed = (Number.parseInt(digit, 16) ^ bit).toString(16);
      return hex.slice(0, at) + changed + hex.slice(at + 1);
    }),
  );
}
