/** Reads the wire format of Protocol Buffers: fields of one message, without what no message here has (groups). */

export class ProtobufError extends Error {
  override readonly name = 'ProtobufError';
}

export interface ProtobufField {
  readonly number: number;
  /** of a varint */
  readonly value?: bigint;
  /** of text, bytes and messages */
  readonly bytes?: Uint8Array;
}

/** Throws ProtobufError. */
export function* readFields(message: Uint8Array): Generator<ProtobufField, void, undefined> {
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let length = 0; length < 10; length += 1) {
      const byte = message[at];
      if (byte === undefined) throw new ProtobufError('a number is cut off');
      at += 1;
      value |= BigInt(byte & 0x7f) << BigInt(7 * length);
      if (byte < 0x80) return value;
    }
    throw new ProtobufError('a number is too long');
  };
  const take = (length: number): Uint8Array => {
    if (length > message.length - at) throw new ProtobufError('a field is cut off');
    at += length;
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const tag = varint();
    const number = Number(tag >> 3n);
    if (number < 1 || number > 2 ** 29 - 1) throw new ProtobufError('there is no such field');
    switch (Number(tag & 7n)) {
      case 0:
        yield { number, value: varint() };
        break;
      case 1:
        take(8);
        yield { number };
        break;
      case 2:
        yield { number, bytes: take(Number(varint())) };
        break;
      case 5:
        take(4);
        yield { number };
        break;
      default:
        throw new ProtobufError('there is no such kind of field');
    }
  }
}
