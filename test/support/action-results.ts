/** Messages of Bazel's Remote Execution API, written as protoc does. */
import { createHash } from 'node:crypto';

type Part = readonly [number, number | string | Uint8Array];

/** Fields of one message: numbers as varints, the rest with their length. */
export function message(...parts: readonly Part[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(
    Buffer.concat(
      parts.flatMap(([number, value]) => {
        if (typeof value === 'number') return [varint(number * 8), varint(value)];
        const bytes = Buffer.from(value);
        return [varint(number * 8 + 2), varint(bytes.length), bytes];
      }),
    ),
  );
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

export function sha256(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function digest(bytes: string | Uint8Array): Uint8Array<ArrayBuffer> {
  return message([1, sha256(bytes)], [2, Buffer.byteLength(Buffer.from(bytes))]);
}

/** An ActionResult with these files, and stdout. */
export function actionResult(files: readonly string[], ...more: readonly Part[]): Uint8Array<ArrayBuffer> {
  const outputs = files.map((file, index): Part => [2, message([1, `out/${index}`], [2, digest(file)])]);
  return message(...outputs, [4, 0], ...more);
}
