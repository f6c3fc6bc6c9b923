/** The OpenAPI 3.1 document of the operator API, generated from the server's table of operations. */
import type { JsonSchema } from '@holdfast/protocol';
import type { Fields } from './fields.ts';
import { API_PATH } from './fields.ts';
import type { Operation } from './operation.ts';
import { OPERATION_NAMES, OPERATIONS, type OperationName } from './operations.ts';
import { PROBLEM_STATUS, type ProblemCode } from './problem.ts';
import { COUNT, record, TEXT } from './schemas.ts';

const DESCRIPTION = `What operators may ask of a Holdfast server, on its listener for operators (\`serve --operator-listen\`). A GET \
takes its input as query parameters, a POST as a JSON object with \`Content-Type: application/json\`; unknown, missing and repeated \
fields are refused. Every request but \`sign-in\` needs a bearer token \
of operators that has the right in \`x-right\`; \`read\` does for every GET. Refusals are \
RFC 9457 problems: a program decides by \`code\`, a person reads \`detail\`.`;

const PROBLEM: JsonSchema = record({
  type: { const: 'about:blank' },
  title: TEXT,
  status: COUNT,
  detail: { type: 'string', description: 'One line for a person: what happened and what to do.' },
  code: { enum: Object.keys(PROBLEM_STATUS) },
});

const REFUSALS: Readonly<Record<number, string>> = Object.fromEntries(
  Object.entries(
    Object.groupBy(Object.keys(PROBLEM_STATUS) as ProblemCode[], (code) => PROBLEM_STATUS[code]),
  ).map(([status, codes]) => [status, (codes as ProblemCode[]).join(' or ')]),
);

export function buildOperatorOpenApi(): JsonSchema {
  const paths: Record<string, Record<string, JsonSchema>> = {};
  for (const name of OPERATION_NAMES) {
    const described = OPERATIONS[name] as unknown as Operation;
    const path = `${API_PATH}${described.path}`;
    paths[path] = { ...paths[path], [described.method.toLowerCase()]: describe(name, described) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Holdfast operator API', version: '1', description: DESCRIPTION },
    paths,
    components: {
      schemas: { Problem: PROBLEM },
      responses: Object.fromEntries(
        Object.entries(REFUSALS).map(([status, codes]) => [nameOf(status), problem(codes)]),
      ),
      securitySchemes: { operatorToken: { type: 'http', scheme: 'bearer' } },
    },
    security: [{ operatorToken: [] }],
  };
}

function describe(
  name: OperationName,
  { method, summary, right, input, output, isOpen }: Operation,
): JsonSchema {
  return {
    operationId: name,
    summary,
    ...(isOpen === true ? { security: [{}] } : { 'x-right': right }),
    ...(method === 'GET' ? { parameters: parametersOf(input) } : { requestBody: bodyOf(input) }),
    responses: {
      200: { description: 'It was done.', content: { 'application/json': { schema: output } } },
      ...Object.fromEntries(
        Object.keys(REFUSALS).map((status) => [status, { $ref: `#/components/responses/${nameOf(status)}` }]),
      ),
    },
  };
}

const nameOf = (status: string): string => `Refused${status}`;

function parametersOf(input: Fields): readonly JsonSchema[] {
  return Object.entries(input).map(([name, { schema, isOptional }]) => {
    return { name, in: 'query', required: !isOptional, schema };
  });
}

function bodyOf(input: Fields): JsonSchema {
  const properties = Object.fromEntries(Object.entries(input).map(([name, { schema }]) => [name, schema]));
  const optional = Object.keys(input).filter((name) => input[name]?.isOptional);
  return { required: true, content: { 'application/json': { schema: record(properties, optional) } } };
}

function problem(codes: string): JsonSchema {
  const schema = { $ref: '#/components/schemas/Problem' };
  return { description: `${codes}.`, content: { 'application/problem+json': { schema } } };
}
