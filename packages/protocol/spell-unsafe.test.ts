/** Whatever others call something, it stays on its line and is read in its order. */
import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { spellUnsafe } from './spell-unsafe.ts';

test.each([
  ['plain ü 中 🙂', 'plain ü 中 🙂'],
  ['\u001b[2Jx\r\n', '\\u001b[2Jx\\u000d\\u000a'],
  ['a\u202etxt.exe', 'a\\u202etxt.exe'],
  ['a\u2028b\u2066c\ufeff\u00ad\u200bd', 'a\\u2028b\\u2066c\\ufeff\\u00ad\\u200bd'],
  ['\u{e0041}', '\\u{e0041}'],
  ['\ud800', '\\ud800'],
])('%j', (text, shown) => {
  expect(spellUnsafe(text)).toBe(shown);
});

test('whatever the text, nothing is left that a terminal obeys, and what was shown is shown the same', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const shown = spellUnsafe(text);
      expect(shown).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
      expect(spellUnsafe(shown)).toBe(shown);
    }),
  );
});
