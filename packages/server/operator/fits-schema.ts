/** Checks that an answer has the form that its operation describes, because any program may listen at the given address. */
import type { JsonSchema } from '@holdfast/protocol';

const IS_OF_TYPE: Readonly<Record<string, (value: unknown) => boolean>> = {
  array: Array.isArray,
  boolean: (value) => typeof value === 'boolean',
  integer: Number.isInteger,
  null: (value) => value === null,
  number: (value) => typeof value === 'number',
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  string: (value) => typeof value === 'string',
};

/** Checks types and required fields only. Other words, ranges and additional fields may come from a later version. */
export function fitsSchema(value: unknown, schema: JsonSchema): boolean {
  const { type, anyOf, required, properties, items } = schema as {
    readonly type?: string;
    readonly anyOf?: readonly JsonSchema[];
    readonly required?: readonly string[];
    readonly properties?: Readonly<Record<string, JsonSchema>>;
    readonly items?: JsonSchema;
  };
  if (anyOf !== undefined && !anyOf.some((each) => fitsSchema(value, each))) return false;
  if (type !== undefined && IS_OF_TYPE[type]?.(value) === false) return false;
  if (items !== undefined && Array.isArray(value)) return value.every((each) => fitsSchema(each, items));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return true;
  const isWhole = required?.every((name) => Object.hasOwn(value, name)) ?? true;
  return isWhole && Object.entries(properties ?? {}).every(([name, each]) => fitsField(value, name, each));
}

function fitsField(value: object, name: string, schema: JsonSchema): boolean {
  return !Object.hasOwn(value, name) || fitsSchema((value as Record<string, unknown>)[name], schema);
}
