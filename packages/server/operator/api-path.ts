/** Where the operator API begins. */
export const API_PATH = '/operator/v1/';
