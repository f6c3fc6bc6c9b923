import { expect, test } from 'bun:test';
import { findUnknownVariables, listServeVariables } from './variables.ts';

const unknown = (env: Record<string, string>) =>
  findUnknownVariables(env, listServeVariables()).map(({ name }) => name);

test('the links of Kubernetes to services are nobody’s mistake', () => {
  const links: Record<string, string> = {};
  for (const service of ['HOLDFAST', 'HOLDFAST_OPERATORS']) {
    links[`${service}_SERVICE_HOST`] = '10.0.171.239';
    links[`${service}_SERVICE_PORT`] = '8420';
    links[`${service}_SERVICE_PORT_HTTP`] = '8420';
    links[`${service}_PORT`] = 'tcp://10.0.171.239:8420';
    links[`${service}_PORT_8420_TCP`] = 'tcp://[fd00::1]:8420';
    links[`${service}_PORT_8420_TCP_PROTO`] = 'tcp';
    links[`${service}_PORT_8420_TCP_PORT`] = '8420';
    links[`${service}_PORT_8420_TCP_ADDR`] = 'fd00::1';
  }
  expect(unknown(links)).toEqual([]);
});

test('a variable that a person wrote is', () => {
  expect(unknown({ HOLDFAST_PORT: '8420', HOLDFAST_LISTN: 'x', HOLDFAST_METADATA_FILE: '/f' })).toEqual([
    'HOLDFAST_LISTN',
    'HOLDFAST_PORT',
  ]);
});
