import { Algorithm, Credit, DependentSet, type Rollout } from "primerl"

const entrants = 8

/** Eight rollouts in the order of their dispatch, whatever their examples and groups. */
const bracket = DependentSet.make({
  name: "bracket",
  of: ({ sequence }) => [{ key: `bracket ${Math.floor(sequence / entrants)}`, size: entrants }]
})

/** Rounds that each place wins. A draw or an empty place lets the other go on, and nobody has won for it. */
const roundsWon = (places: ReadonlyArray<Rollout.Rollout | undefined>): ReadonlyArray<number> => {
  const won = places.map(() => 0)
  const meet = (a: number, b: number): number => {
    const [first, second] = [places[a]?.reward, places[b]?.reward]
    if (second === undefined || first === second) return a
    if (first === undefined) return b
    const winner = first > second ? a : b
    won[winner]!++
    return winner
  }
  const play = (from: number, size: number): number =>
    size === 1 ? from : meet(play(from, size / 2), play(from + size / 2, size / 2))
  play(0, entrants)
  return won
}

/** A knock-out tournament: advantage = rounds won − mean of the bracket, known once its final has been played. */
export default Algorithm.define({
  type: "tournament",
  actionLoss: "rl",
  dependsOn: bracket,
  hooks: () => ({
    scoreGroup: (members) => {
      const place = ({ sequence }: Rollout.Rollout) => sequence % entrants
      const places = new Array<Rollout.Rollout | undefined>(entrants).fill(undefined)
      for (const member of members) places[place(member)] = member
      const won = roundsWon(places)
      const mean = won.reduce((sum, rounds) => sum + rounds, 0) / members.length
      return members.map((member) => Credit.uniform(won[place(member)]! - mean))
    }
  })
})
