/** Ignore rules: the innermost file has the last word, patterns from outside come first, odd names match nothing. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { toByteString } from '../byte-names.ts';
import { IgnoreRules } from './ignore-rules.ts';

const none = IgnoreRules.from([]);

describe('ignore rules', () => {
  test('without patterns leave nothing out', () => {
    expect(none.isEmpty).toBe(true);
    expect(none.isIgnored('anything', true)).toBe(false);
  });

  test('tell folders from files, anchored from free, upper from lower case', () => {
    const rules = none.enter('', ['build/\n/top\n*.o\n']);
    expect(rules.isIgnored('build', true)).toBe(true);
    expect(rules.isIgnored('build', false)).toBe(false);
    expect(rules.isIgnored('a/top', false)).toBe(false);
    expect(rules.isIgnored('top', false)).toBe(true);
    expect(rules.isIgnored('a/b/c.o', false)).toBe(true);
    expect(rules.isIgnored('a/b/c.O', false)).toBe(false);
  });

  test('of an inner folder decide over those of an outer one, and hold only there', () => {
    const outer = none.enter('', ['*.log\n']);
    const inner = outer.enter('deep', ['!keep.log\n*.tmp\n']);
    expect(inner.isIgnored('deep/keep.log', false)).toBe(false);
    expect(inner.isIgnored('deep/other.log', false)).toBe(true);
    expect(inner.isIgnored('deep/x.tmp', false)).toBe(true);
    expect(outer.isIgnored('x.tmp', false)).toBe(false);
  });

  test('from outside decide over all', () => {
    const rules = IgnoreRules.from(['!*.log\n*.txt\n']).enter('', ['*.log\n!a.txt\n']);
    expect(rules.isIgnored('a.log', false)).toBe(false);
    expect(rules.isIgnored('a.txt', false)).toBe(true);
  });

  test('match names of UTF-8, and none that are something else', () => {
    const rules = none.enter('', ['ü*\n*\n!*.keep\n']);
    expect(rules.isIgnored(toByteString('über'), false)).toBe(true);
    expect(rules.isIgnored('\u00ff', false)).toBe(false);
  });

  test('go on after more paths than are remembered', () => {
    const rules = none.enter('', ['*.o\n']);
    for (let index = 0; index < 45_000; index += 1) {
      expect(rules.isIgnored(`f${index}.o`, false)).toBe(true);
    }
  });

  test('take any text as patterns', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ minLength: 1 }), (patterns, name) => {
        const rules = none.enter('', [patterns]);
        expect(typeof rules.isIgnored(toByteString(name), false)).toBe('boolean');
      }),
    );
  });
});
