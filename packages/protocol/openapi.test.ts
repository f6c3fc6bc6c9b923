import { describe, expect, test } from 'bun:test';
import { readFile } from 'node:fs/promises';
import Ajv2020 from 'ajv/dist/2020.js';
import { BULK_OPERATIONS, type BulkOperationName } from './bulk/bulk-operations.ts';
import { ERROR_STATUS } from './errors.ts';
import { PACK_MEDIA_TYPE } from './limits.ts';
import { buildOpenApi } from './openapi.ts';
import { OPERATIONS, type OperationName } from './operations.ts';

interface Media {
  readonly schema: {
    readonly $ref?: string;
    readonly properties?: { readonly error: { readonly enum: readonly string[] } };
  };
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}
interface ResponseModel {
  readonly $ref?: string;
  readonly headers?: Readonly<Record<string, { readonly $ref: string }>>;
  readonly content?: Readonly<Record<string, Media>>;
}
interface OperationObject {
  readonly operationId: string;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly requestBody?: { readonly required: boolean; readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, ResponseModel>>;
}

const text = JSON.stringify(buildOpenApi());
const api = JSON.parse(text) as {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;
};

type Name = OperationName | BulkOperationName;
const ALL = { ...OPERATIONS, ...BULK_OPERATIONS };
const NAMES = Object.keys(ALL) as Name[];

function resolve(pointer: string): unknown {
  return pointer
    .slice(2)
    .split('/')
    .reduce<unknown>(
      (value, key) => (value as Record<string, unknown>)[key.replaceAll('~1', '/').replaceAll('~0', '~')],
      api,
    );
}

function operation(name: Name): OperationObject {
  const { path, method } = ALL[name];
  return api.paths[path]?.[method.toLowerCase()] as OperationObject;
}

function response(name: Name, status: number): ResponseModel {
  const model = operation(name).responses[String(status)];
  return model?.$ref === undefined ? (model as ResponseModel) : (resolve(model.$ref) as ResponseModel);
}

function codesOf(name: Name, status: number): readonly string[] {
  return response(name, status).content?.['application/json']?.schema.properties?.error.enum ?? [];
}

test('the committed openapi.json is what the code makes (run `npm run openapi`)', async () => {
  const committed = await readFile(new URL('./openapi.json', import.meta.url), 'utf8');
  expect(committed).toBe(`${JSON.stringify(buildOpenApi(), null, 2)}\n`);
});

test('every reference leads somewhere', () => {
  const refs = [
    ...text.matchAll(/"\$ref":"([^"]+)"/g),
    ...text.matchAll(/"(#\/components\/schemas\/[^"]+)"/g),
  ];
  expect(refs.length).toBeGreaterThan(50);
  for (const [, pointer] of refs)
    expect({ pointer, at: typeof resolve(pointer as string) }).toEqual({
      pointer: pointer as string,
      at: 'object',
    });
});

describe('operations', () => {
  test('are the seven and health, nothing else', () => {
    const found = Object.entries(api.paths).flatMap(([path, item]) =>
      Object.entries(item)
        .filter(([key]) => key !== 'parameters')
        .map(([method, object]) => `${object.operationId} ${method} ${path}`),
    );
    const expected = NAMES.map((name) => `${name} ${ALL[name].method.toLowerCase()} ${ALL[name].path}`);
    expect(found.sort()).toEqual([...expected, 'health get /health'].sort());
  });

  test.each(NAMES)('%s names its authority and the status of success', (name) => {
    expect(operation(name).security).toEqual([{ capability: [ALL[name].authority] }]);
    expect(operation(name).responses).toHaveProperty('200');
  });

  test('health is public and has no timing headers', () => {
    const health = api.paths['/health']?.get;
    expect(health?.security).toEqual([]);
    expect(health?.responses['200']?.headers).toBeUndefined();
  });

  test('bodies are required where the specification says so', () => {
    const required = NAMES.map((name) => [name, operation(name).requestBody?.required]);
    expect(Object.fromEntries(required)).toEqual({
      readContent: undefined,
      readMetadata: undefined,
      leaseNode: true,
      getUsage: undefined,
      runGc: false,
      listRootRefs: undefined,
      updateRootRefs: true,
      leaseNodes: true,
      leasePack: true,
      readNodes: true,
    });
  });
});

describe('errors', () => {
  test.each(NAMES)('%s answers each code with its own status', (name) => {
    const statuses = Object.keys(operation(name).responses)
      .map(Number)
      .filter((status) => status >= 400);
    for (const status of statuses) {
      expect(codesOf(name, status).length).toBeGreaterThan(0);
      for (const code of codesOf(name, status)) {
        if (status === 416) expect(code).toBe('INVALID_REQUEST');
        else expect(ERROR_STATUS[code as keyof typeof ERROR_STATUS]).toBe(status as never);
      }
    }
    expect(statuses).toEqual(expect.arrayContaining([400, 401, 403, 404, 429, 500, 503]));
  });

  test('each code is answered by some operation, the two of the status map that have finer ones apart', () => {
    const seen = new Set(
      NAMES.flatMap((name) =>
        Object.keys(operation(name).responses).flatMap((status) => codesOf(name, Number(status))),
      ),
    );
    const all = Object.keys(ERROR_STATUS).filter((code) => code !== 'UNAUTHORIZED' && code !== 'FORBIDDEN');
    expect([...seen].sort()).toEqual(all.sort());
  });

  test('the special ones are where docs/api.md has them', () => {
    expect(codesOf('updateRootRefs', 409)).toEqual(['CONFLICT', 'IDEMPOTENCY_CONFLICT']);
    expect(codesOf('listRootRefs', 409)).toEqual(['CONFLICT']);
    expect(codesOf('leaseNode', 429)).toEqual(['CAS_UPLOAD_LIMIT', 'RESOURCE_EXHAUSTED']);
    expect(codesOf('leaseNodes', 429)).toEqual(['CAS_UPLOAD_LIMIT', 'RESOURCE_EXHAUSTED']);
    expect(codesOf('leasePack', 409)).toEqual(['CONFLICT']);
    expect(codesOf('readContent', 416)).toEqual(['INVALID_REQUEST']);
    const withBody = [
      'leaseNode',
      'runGc',
      'updateRootRefs',
      'leaseNodes',
      'leasePack',
      'readNodes',
    ] as const;
    for (const name of withBody) {
      expect(codesOf(name, 413)).toEqual(['PAYLOAD_TOO_LARGE']);
    }
  });
});

describe('headers', () => {
  test.each(NAMES)('%s carries timing and CORS on every answer, and those its status needs', (name) => {
    for (const status of Object.keys(operation(name).responses).map(Number)) {
      const headers = Object.keys(response(name, status).headers ?? {});
      expect(headers).toEqual(
        expect.arrayContaining(['Server-Timing', 'Timing-Allow-Origin', 'Access-Control-Allow-Origin']),
      );
      if (status >= 400) expect(headers).toContain('Cache-Control');
      expect(headers.includes('WWW-Authenticate')).toBe(status === 401);
      expect(headers.includes('Retry-After')).toBe(status === 429 || status === 503);
      expect(headers.includes('Content-Range')).toBe(status === 206 || status === 416);
      expect(headers).not.toContain('ETag');
    }
  });

  test('reads of Bulk answer a pack that is not kept', () => {
    const { content, headers } = response('readNodes', 200);
    expect(Object.keys(content ?? {})).toEqual([PACK_MEDIA_TYPE]);
    expect(Object.keys(headers ?? {})).toEqual(
      expect.arrayContaining(['Cache-Control', 'X-Content-Type-Options']),
    );
  });

  test('content is immutable, sandboxed and sized', () => {
    for (const status of [200, 206]) {
      expect(Object.keys(response('readContent', status).headers ?? {})).toEqual(
        expect.arrayContaining([
          ...['Accept-Ranges', 'Content-Length', 'Cache-Control', 'Vary'],
          ...['X-Content-Type-Options', 'Content-Security-Policy'],
        ]),
      );
    }
  });
});

test('every example is valid under its schema, and every schema of a body has one', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema({ ...(api as object), $id: 'https://holdfast.test/openapi' });
  const responses = Object.values(resolve('#/components/responses') as Record<string, ResponseModel>);
  const operations = Object.values(api.paths).flatMap((item) =>
    Object.values(item).filter((object) => 'operationId' in object),
  );
  const bodies = [
    ...responses,
    ...operations.flatMap((object) => Object.values(object.responses)),
    ...operations.flatMap((object) => object.requestBody ?? []),
  ].flatMap((body) => Object.entries(body.content ?? {}));
  let checked = 0;
  for (const [mediaType, media] of bodies) {
    if (mediaType !== 'application/json') continue;
    const schema = JSON.parse(
      JSON.stringify(media.schema).replaceAll('"#/', '"https://holdfast.test/openapi#/'),
    );
    const validate = ajv.compile(schema);
    const examples = Object.values(media.examples ?? {});
    expect(examples.length).toBeGreaterThan(0);
    for (const example of examples) {
      expect({ example: example.value, valid: validate(example.value) }).toEqual({
        example: example.value,
        valid: true,
      });
      checked++;
    }
  }
  expect(checked).toBeGreaterThan(30);
});
