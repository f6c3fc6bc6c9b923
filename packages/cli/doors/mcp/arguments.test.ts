/** Any input of an agent is taken, or refused by a sentence. */
import { expect, test } from 'bun:test';
import { CatalogError, EditError } from '@holdfast/client/internal';
import fc from 'fast-check';
import { checkArguments, fields, ToolError } from './arguments.ts';
import { parsePlace } from './mcp-names.ts';
import { TOOLS } from './tools.ts';

const TOLD = [ToolError, CatalogError, EditError];

function isToldOrTaken(work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    return TOLD.some((kind) => error instanceof kind);
  }
}

test('arguments of any shape are taken or refused by a sentence', () => {
  const known = [
    ...new Set([...TOOLS.values()].flatMap(({ schema }) => Object.keys(schema.properties ?? {}))),
  ];
  const shape = fc.dictionary(fc.constantFrom(...known, '__proto__', 'constructor'), fc.jsonValue());
  const tool = fc.constantFrom(...TOOLS.values());
  const given = fc.oneof(shape, fc.jsonValue(), fc.constant(undefined));
  fc.assert(
    fc.property(tool, given, ({ schema }, args) => isToldOrTaken(() => checkArguments(schema, args))),
  );
});

test('what is taken has only known fields of their type', () => {
  const schema = TOOLS.get('read')?.schema;
  if (schema === undefined) throw new Error('there is no tool read');
  expect(() => checkArguments(schema, { path: 'a', offset: 0, length: 1 })).not.toThrow();
  for (const bad of [
    { path: 'a', offset: -1 },
    { path: 'a', offset: '0' },
    { path: 'a', toString: 1 },
    [],
    null,
    'a',
  ])
    expect(() => checkArguments(schema, bad)).toThrow(ToolError);
});

test('a path is a name and names below it, or refused by a sentence', () => {
  const part = fc.oneof(
    fc.constantFrom('', '.', '..', 'a', '\0', '/', '%2f', '\ud800'),
    fc.string({ unit: 'binary' }),
  );
  const path = fc.array(part).map((parts) => parts.join('/'));
  fc.assert(
    fc.property(path, (text) =>
      isToldOrTaken(() => {
        const { name, rest } = parsePlace(text);
        expect(rest === '' ? name : `${name}/${rest}`).toBe(text);
        expect(rest.split('/')).not.toContain('..');
      }),
    ),
  );
});

test('a field named length is no size of the arguments', () => {
  const schema = fields({ length: { type: 'integer', minimum: 0, maximum: 9 } }, []);
  expect(() => checkArguments(schema, { length: 1e99 })).toThrow('length must be integer; 1e+99 was given');
});
