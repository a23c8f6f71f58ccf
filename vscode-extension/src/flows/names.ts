/** What the sidecar accepts as a name of a delegator or a model server: names become file names on every platform. */
export const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;
