import { heapStats } from 'bun:jsc';
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { isJsonObject, type JsonValue, parseStrictJson, StrictJsonError } from './strict-json.ts';

const encoder = new TextEncoder();

function parse(text: string, depthMax = 64): JsonValue {
  return parseStrictJson(encoder.encode(text), { depthMax });
}

function reasonOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(StrictJsonError);
    return (error as StrictJsonError).reason;
  }
  return 'none';
}

test('white space of any kind and length stands between values', () => {
  for (const kind of [' ', '\n', '\r', '\t', ' \r\n\t']) {
    const space = kind.repeat(10_000);
    expect(toPlain(parse(`${space}{${space}"a"${space}:${space}[1${space},2]${space}}${space}`))).toEqual({
      a: [1, 2],
    });
    expect(reasonOf(() => parse(`${space}`))).toBe('a value is missing');
    expect(reasonOf(() => parse(`1${space}2`))).toBe('something follows the value');
  }
  for (const other of ['\v', '\f', '\u00a0', '\u2028', '\ufeff'])
    expect(() => parse(`[1, ${other}2]`)).toThrow();
});

test('values are counted, those within others too', () => {
  const parseFew = (text: string) => parseStrictJson(encoder.encode(text), { valuesMax: 4 });
  expect(toPlain(parseFew('{"a":[1,2]}'))).toEqual({ a: [1, 2] });
  for (const text of ['{"a":[1,2,3]}', '[[],[],[],[]]', '{"a":1,"b":2,"c":3,"d":4}']) {
    expect(reasonOf(() => parseFew(text))).toBe('more than 4 values stand in it');
  }
});

/** The value that the platform's parser reads. */
function toPlain(value: JsonValue): unknown {
  if (isJsonObject(value)) {
    const entries = [...value].map(([name, member]) => [name, toPlain(member)]);
    return Object.fromEntries(entries);
  }
  return Array.isArray(value) ? value.map(toPlain) : value;
}

function hasLoneSurrogate(value: unknown): boolean {
  if (typeof value === 'string') return !value.isWellFormed();
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(([name, member]) => !name.isWellFormed() || hasLoneSurrogate(member));
}

describe('agreement with the platform', () => {
  test('what JSON.stringify writes is read as JSON.parse reads it', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ stringUnit: 'binary', maxDepth: 4 }),
        fc.constantFrom('', ' ', '\t', '\n  '),
        (value, indent) => {
          const text = JSON.stringify(value, null, indent);
          expect(toPlain(parse(text))).toEqual(withoutMinusZero(JSON.parse(text)));
        },
      ),
      { numRuns: 300 },
    );
  });

  test('a text made of JSON pieces is refused or accepted as by JSON.parse, twins and lone surrogates apart', () => {
    const piece = fc.constantFrom(
      ...[
        '{',
        '}',
        '[',
        ']',
        ',',
        ':',
        '"a"',
        '"b"',
        '"',
        '\\',
        '\\u0061',
        '\\ud800',
        '\\n',
        '\\x',
        '\u0001',
      ],
      ...[
        '1',
        '-',
        '0',
        '01',
        '.5',
        '1.0',
        '1e2',
        'e',
        '+',
        'true',
        'false',
        'null',
        'nul',
        ' ',
        '\n',
        '\u00a0',
      ],
      ...['{"a":1}', '[1]', '/', '\u2028', '\uFEFF', 'é', '😀', 'NaN', 'Infinity', "'a'"],
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 9 }), (pieces) => {
        const text = pieces.join('');
        const reason = reasonOf(() => parse(text));
        let expected: unknown;
        try {
          expected = JSON.parse(text);
        } catch {
          expect(reason).not.toBe('none');
          return;
        }
        if (/occurs twice/.test(reason)) return;
        if (hasLoneSurrogate(expected)) expect(reason).toMatch(/lone surrogate/);
        else expect(reason).toBe('none');
      }),
      { numRuns: 3000 },
    );
  });

  test('random bytes never do anything but parse or throw StrictJsonError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        expect(reasonOf(() => parseStrictJson(bytes)).length).toBeGreaterThan(0);
      }),
      { numRuns: 1000 },
    );
  });
});

function withoutMinusZero(value: unknown): unknown {
  if (typeof value === 'number') return value === 0 ? 0 : value;
  if (Array.isArray(value)) return value.map(withoutMinusZero);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withoutMinusZero(member)]));
}

describe('names', () => {
  test.each([
    '{"a":1,"a":1}',
    '{"a":1,"\\u0061":2}',
    '{"\\u0061":1,"\\u0061":2}',
    '{"x":{"a":1,"b":2,"a":3}}',
    '[{"a":[{"b":1,"\\u0062":1}]}]',
    '{"":1,"":2}',
    '{"__proto__":1,"__proto__":2}',
    '{"/":1,"\\/":2}',
    '{"😀":1,"\\ud83d\\ude00":2}',
    '{"\\uD83D\\uDE00":1,"\\ud83d\\ude00":2}',
  ])('refuses twins in %s', (text) => {
    expect(reasonOf(() => parse(text))).toMatch(/occurs twice/);
  });

  test('any duplicated name is refused, however it is escaped', () => {
    const escapeAll = (name: string) =>
      [...Array(name.length).keys()]
        .map((at) => `\\u${name.charCodeAt(at).toString(16).padStart(4, '0')}`)
        .join('');
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.boolean(), (name, nested) => {
        const twins = `{${JSON.stringify(name)}:1,"${escapeAll(name)}":2}`;
        expect(reasonOf(() => parse(nested ? `{"x":[${twins}]}` : twins))).toMatch(/occurs twice/);
      }),
    );
  });

  test('the same name in different objects is fine, and different forms stay different', () => {
    expect(toPlain(parse('{"a":{"a":1},"b":{"a":2}}'))).toEqual({ a: { a: 1 }, b: { a: 2 } });
    expect((parse('{"\u00e9":1,"e\u0301":2}') as Map<string, JsonValue>).size).toBe(2);
  });

  test('no name is special', () => {
    const value = parse('{"__proto__":{"x":1},"constructor":2,"hasOwnProperty":3}');
    expect(isJsonObject(value) && [...value.keys()]).toEqual(['__proto__', 'constructor', 'hasOwnProperty']);
    expect(({} as { x?: unknown }).x).toBeUndefined();
  });
});

describe('numbers', () => {
  test.each([
    ['1.0', 1],
    ['1e2', 100],
    ['1E+2', 100],
    ['100e-2', 1],
    ['1.50e1', 15],
    ['-0', 0],
    ['-0.0e5', 0],
    ['0e999999999999', 0],
    ['-1.0', -1],
    ['9007199254740991', 9007199254740991],
    ['9007199254740991.000', 9007199254740991],
    ['0.000001e6', 1],
    [`1${'0'.repeat(200)}e-200`, 1],
    [`0.${'0'.repeat(300)}1e301`, 1],
  ] as const)('%s is the integer %d', (text, value) => {
    expect(Object.is(parse(text), value)).toBe(true);
  });

  test.each([
    '1.5',
    '1e400',
    '-1e400',
    '1e-1',
    '1e-400',
    '9007199254740992',
    '9007199254740993',
    '9007199254740991.4',
    '0.99999999999999999999999',
    '1.00000000000000000000001',
    '99999999999999999999999999999999999999999',
    `1${'0'.repeat(400)}`,
    '1e-99999999999999999999',
  ])('%s is no safe integer', (text) => {
    expect(Number.isSafeInteger(parse(text))).toBe(false);
  });

  test('exact integers in any notation, and nothing else, are integers', () => {
    fc.assert(
      fc.property(
        fc.maxSafeInteger(),
        fc.integer({ min: 0, max: 30 }),
        fc.boolean(),
        (integer, shift, spoil) => {
          const digits = `${Math.abs(integer)}`.padStart(shift + 1, '0');
          const sign = integer < 0 ? '-' : '';
          const whole = digits.slice(0, digits.length - shift).replace(/^0+(?=\d)/, '');
          const fraction = digits.slice(digits.length - shift);
          const tail = spoil ? '0000000000000000000000001' : '';
          const text = `${sign}${whole}.${fraction}${tail || '0'}e${shift}`;
          const value = parse(text);
          if (spoil) expect(Number.isSafeInteger(value)).toBe(false);
          else expect(value).toBe(integer === 0 ? 0 : integer);
        },
      ),
      { numRuns: 500 },
    );
  });

  test.each([
    '01',
    '-',
    '+1',
    '.5',
    '1.',
    '1.e1',
    '1e',
    '1e+',
    '0x10',
    '1_0',
    'NaN',
    'Infinity',
    '-Infinity',
    '--1',
    '٣',
  ])('%s is no number', (text) => {
    expect(reasonOf(() => parse(text))).not.toBe('none');
  });
});

describe('bounds and bytes', () => {
  test('depth', () => {
    const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
    expect(reasonOf(() => parse(nested(8), 8))).toBe('none');
    expect(reasonOf(() => parse(nested(9), 8))).toMatch(/more than 8 levels/);
    expect(reasonOf(() => parse('{"a":'.repeat(9) + 1 + '}'.repeat(9), 8))).toMatch(/more than 8 levels/);
    expect(reasonOf(() => parse('['.repeat(500_000), 8))).toMatch(/more than 8 levels/);
    expect(reasonOf(() => parse(`[${'[],'.repeat(50)}[]]`, 2))).toBe('none');
  });

  test('length', () => {
    const bytes = encoder.encode('"0123456789"');
    expect(parseStrictJson(bytes, { bytesMax: 12 })).toBe('0123456789');
    expect(reasonOf(() => parseStrictJson(bytes, { bytesMax: 11 }))).toMatch(/longer than 11 bytes/);
    expect(reasonOf(() => parseStrictJson(new Uint8Array(1024 * 1024 + 1).fill(0x20)))).toMatch(
      /longer than 1048576/,
    );
  });

  test.each([
    ['byte order mark', [0xef, 0xbb, 0xbf, 0x31]],
    ['stray continuation', [0x22, 0x80, 0x22]],
    ['overlong slash', [0x22, 0xc0, 0xaf, 0x22]],
    ['encoded surrogate', [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ['beyond U+10FFFF', [0x22, 0xf4, 0x90, 0x80, 0x80, 0x22]],
    ['cut sequence', [0x22, 0xe2, 0x82]],
    ['UTF-16', [0x31, 0x00]],
    ['NUL after the value', [0x31, 0x00]],
  ])('refuses %s', (_, bytes) => {
    expect(reasonOf(() => parseStrictJson(new Uint8Array(bytes)))).not.toBe('none');
  });

  test.each(['"\\ud800"', '"\\udc00\\ud800"', '"a\\ud83d"', '"\\ud83d\\u0041"', '{"\\ud800":1}'])(
    'refuses the lone surrogate of %s',
    (text) => {
      expect(reasonOf(() => parse(text))).toMatch(/lone surrogate/);
    },
  );

  test('says where and what', () => {
    const fault = (text: string) => {
      try {
        parse(text);
      } catch (error) {
        return (error as StrictJsonError).message;
      }
      return 'none';
    };
    expect(fault('')).toBe('a value is missing at position 0');
    expect(fault('{"a":1,}')).toBe('a name in double quotes is missing at position 7');
    expect(fault('{"a" 1}')).toBe('a colon is missing at position 5');
    expect(fault('[1 2]')).toBe('a comma or closing bracket is missing at position 3');
    expect(fault('{"a":1 "b":2}')).toBe('a comma or closing brace is missing at position 7');
    expect(fault('1 2')).toBe('something follows the value at position 2');
    expect(fault('{"a":1,"a":2}')).toBe('the name "a" occurs twice in one object at position 7');
    expect(fault('"a\nb"')).toBe('a control character stands unescaped in a string at position 2');
    expect(fault('"\\t\n"')).toBe('a control character stands unescaped in a string at position 3');
    expect(fault('"abc')).toBe('a string has no end at position 4');
    expect(fault('"\\nbc')).toBe('a string has no end at position 5');
    expect(fault('"\\u00g0"')).toBe('\\u needs four hexadecimal digits at position 1');
  });
});

test('a string of escapes leaves no piece of text for each of them', () => {
  const countStrings = (): number => heapStats().objectTypeCounts.string ?? 0;
  const bytes = encoder.encode(`"${'\\n\\u0041'.repeat(100_000)}"`);
  const before = countStrings();
  expect(parseStrictJson(bytes)).toBe('\nA'.repeat(100_000));
  expect(countStrings() - before).toBeLessThan(10_000);
});
