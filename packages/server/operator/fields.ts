/** The fields of an operation's input: one description for the strict parser, of query text or JSON, and for the schema. */
import { INTEGER_MAX, isPathId, type JsonSchema, PATH_ID_CHARACTERS_MAX, SCHEMAS } from '@holdfast/protocol';
import { OperatorError } from './problem.ts';

export const API_PATH = '/operator/v1/';

export interface Field<T> {
  readonly schema: JsonSchema;
  /** optional: `parse` then gets undefined */
  readonly isOptional: boolean;
  /** The JSON value of a query parameter's text; invalid text stays text. */
  fromText(text: string): unknown;
  /** Parses the value, or calls `refuse` with the reason. */
  parse(value: unknown, refuse: (rule: string) => never): T;
}

export type Fields = Readonly<Record<string, Field<unknown>>>;

export type Parsed<F extends Fields> = { readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never };

type OptionalNames<F extends Fields> = {
  [K in keyof F]: undefined extends Parsed<F>[K] ? K : never;
}[keyof F];

/** The fields that a caller gives; optional ones may be undefined. */
export type Given<F extends Fields> = Omit<Parsed<F>, OptionalNames<F>> & {
  readonly [K in OptionalNames<F>]?: Parsed<F>[K];
};

const same = (text: string): unknown => text;

export function optional<T>(field: Field<T>): Field<T | undefined> {
  return {
    schema: field.schema,
    isOptional: true,
    fromText: field.fromText,
    parse: (value, refuse) => (value === undefined ? undefined : field.parse(value, refuse)),
  };
}

/** Text of 1 to `lengthMax` UTF-16 units. `given`: the form of the texts that answers give; any other text is refused. */
export function text(description: string, lengthMax: number, given = /^/): Field<string> {
  return {
    schema: { type: 'string', minLength: 1, maxLength: lengthMax, description },
    isOptional: false,
    fromText: same,
    parse: (value, refuse) => {
      if (typeof value !== 'string' || value === '' || value.length > lengthMax)
        return refuse(`must be a text of 1 to ${lengthMax} characters`);
      return given.test(value) ? value : refuse('must be one that an answer gave');
    },
  };
}

function pathId(description: string): Field<string> {
  return {
    schema: { ...SCHEMAS.PathId, description },
    isOptional: false,
    fromText: same,
    parse: (value, refuse) => {
      if (typeof value === 'string' && isPathId(value)) return value;
      return refuse(
        `must be 1 to ${PATH_ID_CHARACTERS_MAX} characters without control characters, other than . and ..`,
      );
    },
  };
}

export const APP = pathId('The id of an App.');
export const SPACE = pathId('The id of a Space.');

export function integer(description: string, { min = 0, max = INTEGER_MAX } = {}): Field<number> {
  return {
    schema: { type: 'integer', minimum: min, maximum: max, description },
    isOptional: false,
    fromText: (given) => (/^-?(?:0|[1-9][0-9]{0,15})$/.test(given) ? Number(given) : given),
    parse: (value, refuse) => {
      if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max)
        return value as number;
      return refuse(`must be an integer from ${min} to ${max}`);
    },
  };
}

/** Accepts null too, which removes the setting. */
export function nullable<T>(field: Field<T>): Field<T | null> {
  return {
    ...field,
    schema: { anyOf: [field.schema, { type: 'null' }] },
    parse: (value, refuse) => (value === null ? null : field.parse(value, refuse)),
  };
}

export function flag(description: string): Field<boolean> {
  return {
    schema: { type: 'boolean', description },
    isOptional: false,
    fromText: (given) => (given === 'true' ? true : given === 'false' ? false : given),
    parse: (value, refuse) => (typeof value === 'boolean' ? value : refuse('must be true or false')),
  };
}

export function choice<const W extends string>(description: string, words: readonly W[]): Field<W> {
  return {
    schema: { enum: words, description },
    isOptional: false,
    fromText: same,
    parse: (value, refuse) =>
      words.find((word) => word === value) ?? refuse(`must be one of ${words.join(', ')}`),
  };
}

/** Parses the input. @throws OperatorError INVALID_INPUT that names the field and the rule */
export function parseFields<F extends Fields>(fields: F, given: ReadonlyMap<string, unknown>): Parsed<F> {
  for (const name of given.keys()) {
    if (!Object.hasOwn(fields, name)) {
      const known = Object.keys(fields);
      throw invalid(
        `there is no field ${shown(name)}; ${known.length === 0 ? 'the operation takes none' : `the fields are ${known.join(', ')}`}`,
      );
    }
  }
  const parsed: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(fields)) {
    const value = given.get(name);
    if (value === undefined && !field.isOptional) throw invalid(`the field ${name} is missing`);
    parsed[name] = field.parse(value, (rule) => {
      throw invalid(`the field ${name} ${rule}, not ${shown(value)}`);
    });
  }
  return parsed as Parsed<F>;
}

function invalid(message: string): OperatorError {
  return new OperatorError('INVALID_INPUT', message);
}

function shown(value: unknown): string {
  const json = JSON.stringify(value) ?? 'nothing';
  return json.length <= 80 ? json : `${json.slice(0, 80)}…`;
}
