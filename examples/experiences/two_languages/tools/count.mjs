export default async function count(args) {
  const times = args._state.words.filter((word) => word === args._item).length
  return { state_delta: { counted: { [args._item]: times } }, edge_output: `${args._item}: ${times}` }
}
