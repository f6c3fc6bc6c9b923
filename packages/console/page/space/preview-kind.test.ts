/** The kind of preview for each type of file. */
import { describe, expect, test } from 'bun:test';
import { findPreviewKind, formatHex } from './preview.tsx';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe('bytes are shown as', () => {
  test.each<[string, Uint8Array, string]>([
    ['text, if they are HTML', bytes('<!doctype html><script>x()</script>'), 'text'],
    ['text, if they are SVG', bytes('<svg xmlns="http://www.w3.org/2000/svg" onload="x()"/>'), 'text'],
    ['text, if they are XML', bytes('<?xml version="1.0"?><?xml-stylesheet href="x"?><a/>'), 'text'],
    ['text, if they begin with BM', bytes('BMW drives by'), 'text'],
    ['text, with colours of a terminal', bytes('\u001b[31mred\u001b[0m\n'), 'text'],
    ['text that ends within a character', bytes('naïve é').slice(0, -1), 'text'],
    ['bytes, with a NUL', bytes('a\0b'), 'binary'],
    ['bytes, if they are no UTF-8', Uint8Array.of(0x61, 0xff, 0xfe, 0x62, 0x63, 0x64), 'binary'],
    ['bytes, if they are PDF', bytes('%PDF-1.7\n%\u0001\u0002\u0003\u0004\u0005'), 'binary'],
    ['a PNG', Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0), 'image'],
    ['a JPEG', Uint8Array.of(0xff, 0xd8, 0xff, 0xe0, 0), 'image'],
  ])('%s', (_, content, type) => {
    expect(findPreviewKind(content).type).toBe(type as 'text');
  });

  test('an image never has a type that can hold code', () => {
    const kind = findPreviewKind(Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a));
    expect(kind).toEqual({ type: 'image', mediaType: 'image/png' });
  });
});

test('hexadecimal lines say where they are', () => {
  const lines = formatHex(
    Uint8Array.from({ length: 20 }, (_, at) => at + 0x38),
    0x1000,
  ).split('\n');
  expect(lines).toEqual([
    '00001000  38 39 3a 3b 3c 3d 3e 3f 40 41 42 43 44 45 46 47  89:;<=>?@ABCDEFG',
    '00001010  48 49 4a 4b                                      HIJK',
  ]);
});
